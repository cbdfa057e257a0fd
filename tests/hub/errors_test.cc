// Downloads that end in one clear line, and leave nothing that is wrong.
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/hub/hub_testing.h"
#include <gmock/gmock.h>

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;
using io::hub::HubOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kShard1 = "cdn GET .*00001";

TEST_F(HubTest, UnknownNamesSayWhatToCheck) {
  Error e = download_error(options(), "main", "org/none");
  EXPECT_EQ(e.code(), ErrorCode::NotFound);
  EXPECT_THAT(e.message(), AllOf(HasSubstr("no model 'org/none'"), HasSubstr("check the id"),
                                 HasSubstr("set HF_TOKEN")));
  HubOptions with_token = options();
  with_token.token = "good";
  e = download_error(with_token, "main", "org/none");
  EXPECT_THAT(e.message(), HasSubstr("an account that may read it"));
  e = download_error(options(), "nope");
  EXPECT_EQ(e.code(), ErrorCode::NotFound);
  EXPECT_THAT(e.message(),
              AllOf(HasSubstr("no revision 'nope'"), HasSubstr("/org/tiny/tree/main")));
  EXPECT_EQ(download_error(options(), "../x").code(), ErrorCode::InvalidArgument);
  EXPECT_FALSE(fs::exists(cache())) << "nothing is made for what is not there";
}

TEST_F(HubTest, GatedAndPrivateRepositoriesSayHowToGetIn) {
  add_file(kModel, ".gated", "");
  Error e = download_error(options());
  EXPECT_EQ(e.code(), ErrorCode::Unavailable);
  EXPECT_THAT(e.message(), AllOf(HasSubstr("gated"), HasSubstr(endpoint() + "/org/tiny"),
                                 HasSubstr("set HF_TOKEN")));
  HubOptions other = options();
  other.token = "other";
  e = download_error(other);
  EXPECT_EQ(e.code(), ErrorCode::Unavailable);
  EXPECT_THAT(e.message(), AllOf(HasSubstr("gated"), HasSubstr("of that account")));
  HubOptions good = options();
  good.token = "good";
  expect_complete(download(good));
  fs::remove_all(cache());

  set_rules({{{"match", "hub GET /api"}, {"status", 401}, {"times", 1}}});
  EXPECT_THAT(download_error(other).message(), HasSubstr("refuses the token"));
  set_rules({{{"match", "hub GET /api/.*/tree"}, {"status", 403}, {"times", 1}}});
  EXPECT_THAT(download_error(good).message(), HasSubstr("forbids reading"));
}

TEST_F(HubTest, MissingFileOfTheListIsNamed) {
  set_rules({{{"match", "hub HEAD .*00002-of"},
              {"status", 404},
              {"headers", {{"X-Error-Code", "EntryNotFound"}}}}});
  const Error e = download_error(options());
  EXPECT_EQ(e.code(), ErrorCode::NotFound);
  EXPECT_THAT(e.message(), HasSubstr("no file 'transformer/diffusion_pytorch_model-00002"));
}

TEST_F(HubTest, RepositoryThatCannotBeUsedIsRefusedBeforeTheFirstByte) {
  const auto expect = [&](const std::string& part) {
    const Error e = download_error(options());
    EXPECT_EQ(e.code(), ErrorCode::NotFound) << e.message();
    EXPECT_THAT(e.message(), HasSubstr(part));
    EXPECT_FALSE(fs::exists(repo_cache()));
  };
  fs::remove(served("transformer/diffusion_pytorch_model-00002-of-00002.safetensors"));
  expect("lacks transformer/diffusion_pytorch_model-00002-of-00002.safetensors");
  fs::remove(served("transformer/diffusion_pytorch_model.safetensors.index.json"));
  expect("the weights of transformer/ (there are weights variant fp16)");
  fs::remove(served("transformer/diffusion_pytorch_model.fp16.safetensors"));
  expect("which must be converted first");
  fs::remove(served("model_index.json"));
  expect("model_index.json");
}

TEST_F(HubTest, ServerThatStaysDownEndsTheAttempts) {
  set_rules({{{"match", kShard1}, {"status", 500}, {"times", 100}}});
  Error e = download_error(options());
  EXPECT_EQ(e.code(), ErrorCode::Unavailable);
  EXPECT_THAT(e.message(),
              AllOf(HasSubstr("the server says 500 (4 attempts)"), HasSubstr("00001")));
  set_rules(
      {{{"match", "hub GET /api"}, {"status", 429}, {"headers", {{"Retry-After", "86400"}}}}});
  e = download_error(options());
  EXPECT_THAT(e.message(), HasSubstr("asks to wait 86400 s"));
  set_rules({{{"match", "hub GET /api"}, {"status", 418}}});
  EXPECT_THAT(download_error(options()).message(), HasSubstr("says 418"));
  HubOptions nobody = options();
  nobody.endpoint = "http://127.0.0.1:1";
  EXPECT_EQ(download_error(nobody).code(), ErrorCode::Unavailable);
  expect_complete(download(options()));
}

TEST_F(HubTest, StalledConnectionIsGivenUp) {
  HubOptions impatient = options();
  impatient.stall_timeout_s = 1;
  impatient.attempts = 2;
  set_rules({{{"match", kShard1}, {"rate", 1}, {"times", 100}}});
  const Error e = download_error(impatient);
  EXPECT_EQ(e.code(), ErrorCode::Unavailable);
  set_rules(Json::array());
  expect_complete(download(options()));
}

TEST_F(HubTest, WrongBytesAreNeverKept) {
  set_rules({{{"match", kShard1}, {"flip", 150000}, {"times", 100}}});
  const Error e = download_error(options());
  EXPECT_EQ(e.code(), ErrorCode::DataLoss);
  EXPECT_THAT(e.message(), AllOf(HasSubstr("00001"), HasSubstr("do not have the hash")));
  set_rules({{{"match", "hub GET .*scheduler_config"}, {"flip", 0}}});
  EXPECT_EQ(download_error(options()).code(), ErrorCode::DataLoss);
  set_rules({{{"match", "hub GET .*model_index"}, {"flip", 0}}});
  fs::remove_all(cache());
  EXPECT_EQ(download_error(options()).code(), ErrorCode::DataLoss);
  set_rules(Json::array());
  expect_complete(download(options()));
}

TEST_F(HubTest, ShortFileIsNeverKept) {
  set_rules({{{"match", kShard1}, {"short", 1000}, {"times", 100}}});
  Error e = download_error(options());
  EXPECT_EQ(e.code(), ErrorCode::DataLoss);
  EXPECT_THAT(e.message(), HasSubstr("only 299000 of its 300000 bytes"));
  set_rules(Json::array());
  expect_complete(download(options()));
}

TEST_F(HubTest, AnswersThatAreNoHubsAreRefused) {
  const auto expect = [&](const Json& rule, const std::string& part) {
    set_rules(Json::array({rule}));
    const Error e = download_error(options());
    EXPECT_EQ(e.code(), ErrorCode::DataLoss) << e.message();
    EXPECT_THAT(e.message(), HasSubstr(part));
  };
  expect({{"match", "hub GET /api/models/org/tiny/revision"}, {"status", 200}}, "revision/main");
  expect({{"match", "hub GET /api/models/org/tiny/tree"}, {"status", 200}}, "tree");
  expect({{"match", "hub HEAD .*00001"}, {"status", 200}, {"headers", {{"ETag", "\"x\""}}}},
         "ETag 'x' is no hash");
  expect({{"match", "hub HEAD .*00001"}, {"location", "ftp://127.0.0.1/x"}}, "no http address");
  expect({{"match", "hub GET /api/models/org/tiny/revision"},
          {"times", 100},
          {"location", "/api/models/org/tiny/revision/main"}},
         "redirects");
  set_rules(Json::array());
  expect_complete(download(options()));
}

TEST_F(HubTest, FullDiskIsOneLineAndResumed) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{100000, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const Error e = download_error(options());
  ::setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(e.code(), ErrorCode::ResourceExhausted);
  EXPECT_THAT(e.message(), AllOf(HasSubstr(".incomplete"), HasSubstr("free some space")));
  expect_complete(download(options()));
}

TEST_F(HubTest, DiskThatIsTooSmallIsToldBeforeTheFirstByte) {
  auto plan = plan_download(options(), io::hub::RepoId::parse(kModel), "main", {}, events_);
  plan.files[0].size = std::uint64_t{1} << 60U;
  try {
    (void)run_download(options(), plan, events_);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::ResourceExhausted);
    EXPECT_THAT(e.message(), AllOf(HasSubstr("needs 1.2 EB more"), HasSubstr("free")));
  }
  EXPECT_FALSE(fs::exists(cache()));
}

TEST_F(HubTest, VariantIsTaken) {
  const auto plan = plan_download(options(), io::hub::RepoId::parse(kModel), "main",
                                  {.variant = "fp16"}, events_);
  std::vector<std::string> weights;
  for (const auto& file : plan.files) {
    if (file.path.ends_with(".safetensors")) {
      weights.push_back(file.path);
    }
  }
  EXPECT_EQ(weights,
            std::vector<std::string>{"transformer/diffusion_pytorch_model.fp16.safetensors"});
}

}  // namespace
}  // namespace difflet::testing
