// Downloads that end in the right files.
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "tests/hub/hub_testing.h"
#include <gmock/gmock.h>

#include "difflet/base/file.h"
#include "difflet/io/hub/blob_lock.h"
#include "difflet/io/hub/cache.h"
#include "difflet/io/hub/snapshot.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;
using io::hub::HubOptions;
using io::hub::LinkMode;
using io::hub::RepoId;
using io::hub::Wanted;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr const char* kShard = "transformer/diffusion_pytorch_model-00001-of-00002.safetensors";
constexpr const char* kIndex = "transformer/diffusion_pytorch_model.safetensors.index.json";

TEST_F(HubTest, TakesWhatThePipelineNeedsInTheStandardLayout) {
  std::vector<io::hub::Progress> seen;
  events_.progress = [&](const io::hub::Progress& p) { seen.push_back(p); };
  const auto plan = plan_download(options(), RepoId::parse(kModel), "main", {}, events_);
  EXPECT_EQ(plan.files.size(), 8U);
  EXPECT_EQ(plan.bytes(), plan.missing_bytes());
  EXPECT_FALSE(fs::exists(cache())) << "a plan writes nothing";
  const fs::path snapshot = run_download(options(), plan, events_);
  EXPECT_EQ(snapshot, repo_cache() / "snapshots" / plan.commit);
  EXPECT_EQ(read_text_file(repo_cache() / "refs" / "main"), plan.commit);
  expect_complete(snapshot);
  const fs::path link = snapshot / kShard;
  ASSERT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(fs::read_symlink(link).string().starts_with("../../../blobs/"));
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back().bytes, plan.bytes());
  EXPECT_EQ(seen.back().files, plan.files.size());
  // What is there is not asked for again.
  const std::size_t before = requests("GET", "/resolve/") + requests("HEAD", "/resolve/");
  EXPECT_EQ(download(options()), snapshot);
  EXPECT_EQ(requests("GET", "/resolve/") + requests("HEAD", "/resolve/"), before);
}

TEST_F(HubTest, TokenStaysAtTheHub) {
  HubOptions with_token = options();
  with_token.token = "good";
  expect_complete(download(with_token));  // the CDN refuses a request with a token
  std::size_t hub = 0;
  std::size_t cdn = 0;
  for (const Json& line : log()) {
    EXPECT_EQ(line["token"], line["server"] == "hub" ? "Bearer good" : "");
    ++(line["server"] == "hub" ? hub : cdn);
  }
  EXPECT_GT(hub, 0U);
  EXPECT_GT(cdn, 0U);
}

TEST_F(HubTest, RevisionsAreBranchesTagsAndCommits) {
  const fs::path snapshot = download(options(), "refs/pr/1");
  const std::string commit = snapshot.filename();
  EXPECT_EQ(read_text_file(repo_cache() / "refs" / "refs" / "pr" / "1"), commit);
  EXPECT_EQ(download(options(), "v1"), snapshot);
  const std::size_t before = log().size();
  EXPECT_EQ(download(options(), commit), snapshot);
  EXPECT_EQ(log().size(), before) << "a commit that is there needs no network";
  EXPECT_FALSE(fs::exists(repo_cache() / "refs" / commit));
}

TEST_F(HubTest, CutConnectionsAreResumed) {
  Json rules = Json::array();
  for (const int bytes : {0, 1, 12345, 100001, 16384, 0, 77}) {
    rules.push_back({{"match", "cdn GET .*00001"}, {"cut", bytes}, {"id", rules.size()}});
  }
  rules.push_back({{"match", "hub GET .*config.json"}, {"cut", 5}});
  rules.push_back({{"match", "hub GET .*/tree/"}, {"status", 502}});
  set_rules(rules);
  HubOptions patient = options();
  patient.attempts = 10;
  expect_complete(download(patient));
  EXPECT_THAT(notes_, Contains(HasSubstr("again in")));
  bool resumed = false;
  for (const Json& line : log()) {
    resumed = resumed || line["range"] == "bytes=112347-";
  }
  EXPECT_TRUE(resumed);
}

TEST_F(HubTest, CutsAtRandomBytes) {
  std::mt19937 random(7);
  HubOptions patient = options();
  patient.attempts = 20;
  for (int round = 0; round < 3; ++round) {
    Json rules = Json::array();
    for (int i = 0; i < 16; ++i) {
      const auto bytes = random() % (i % 2 == 0 ? kLargeBytes : 40000);
      rules.push_back({{"match", i % 3 == 0 ? "cdn GET" : "cdn GET .*00001"},
                       {"cut", bytes},
                       {"id", round * 100 + i}});
    }
    set_rules(rules);
    expect_complete(download(patient));
    fs::remove_all(cache());
  }
}

TEST_F(HubTest, StopKeepsWhatArrivedForTheNextTime) {
  set_rules({{{"match", "cdn GET .*00001"}, {"rate", 200000}}});
  const auto plan = plan_download(options(), RepoId::parse(kModel), "main", {}, {});
  const fs::path partial = repo_cache() / "blobs" / (plan.files[4].etag + ".incomplete");
  ASSERT_EQ(plan.files[4].path, kShard);
  events_.stop = [&] { return io::hub::regular_size(partial).value_or(0) > 50000; };
  EXPECT_EQ(download_error(options()).code(), ErrorCode::Cancelled);
  const auto have = io::hub::regular_size(partial).value_or(0);
  EXPECT_GT(have, 50000U);
  EXPECT_LT(have, kLargeBytes);
  EXPECT_EQ(fs::begin(fs::directory_iterator(repo_cache() / "snapshots")), fs::directory_iterator())
      << "a snapshot appears when all of it is there";
  events_.stop = {};
  expect_complete(download(options()));
  EXPECT_FALSE(fs::exists(partial));
  EXPECT_EQ(log().back()["range"], fmt::format("bytes={}-", have));
}

TEST_F(HubTest, ServerWithoutRangesIsReadFromTheStart) {
  set_rules({{{"match", "cdn GET .*00001"}, {"cut", 100000}},
             {{"match", "cdn GET .*00001"}, {"whole", true}}});
  expect_complete(download(options()));
}

TEST_F(HubTest, WrongPartialFileIsReplaced) {
  const auto plan = plan_download(options(), RepoId::parse(kModel), "main", {}, events_);
  fs::create_directories(repo_cache() / "blobs");
  const fs::path partial = repo_cache() / "blobs" / (plan.files[4].etag + ".incomplete");
  for (const std::size_t size : {std::size_t{1000}, kLargeBytes, kLargeBytes + 1}) {
    std::ofstream(partial, std::ios::binary) << std::string(size, 'x');
    expect_complete(download(options()));
    fs::remove_all(repo_cache() / "snapshots");
    fs::remove(repo_cache() / "blobs" / plan.files[4].etag);
  }
}

TEST_F(HubTest, BlobOfAnotherSizeIsReplaced) {
  const fs::path snapshot = download(options());
  const fs::path blob = fs::canonical(snapshot / kShard);
  fs::resize_file(blob, 1000);
  expect_complete(download(options()));
}

TEST_F(HubTest, TooManyRequestsAndServerErrorsPass) {
  set_rules({{{"match", "hub GET /api/models/org/tiny/revision"},
              {"status", 429},
              {"headers", {{"Retry-After", "1"}}}},
             {{"match", "hub HEAD .*00001"}, {"status", 500}, {"times", 2}},
             {{"match", "cdn GET .*00002"}, {"status", 503}, {"times", 2}}});
  const auto start = std::chrono::steady_clock::now();
  expect_complete(download(options()));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_THAT(notes_, Contains(HasSubstr("429, too many requests; again in 1 s")));
}

TEST_F(HubTest, ExpiredAddressIsAskedForAgain) {
  set_rules({{{"match", "cdn GET .*00001"}, {"status", 403}}});
  expect_complete(download(options()));
}

TEST_F(HubTest, XetFilesComeOverPlainHttp) {
  add_file(kModel, ".xet", "");
  expect_complete(download(options()));
}

TEST_F(HubTest, RedirectsOfTheHubItselfKeepTheToken) {
  HubOptions with_token = options();
  with_token.token = "good";
  add_file(kModel, ".private", "");
  const std::string commit = download(with_token).filename();
  set_rules({{{"match", "hub GET /api/models/org/old/revision"},
              {"location", "/api/models/org/tiny/revision/main"}},
             {{"match", "hub GET /api/models/org/old/tree"},
              {"location", "/api/models/org/tiny/tree/" + commit}},
             {{"match", "hub GET /org/old/resolve/.*model_index.json"},
              {"location", "/org/tiny/resolve/" + commit + "/model_index.json"}},
             {{"match", "hub GET /org/old/resolve/.*index.json"},
              {"location", "/org/tiny/resolve/" + commit + "/" + kIndex}}});
  const auto plan = plan_download(with_token, RepoId::parse("org/old"), "main", {}, events_);
  EXPECT_EQ(plan.commit, commit);
}

TEST_F(HubTest, WithoutLinksFilesStandInTheirPlace) {
  HubOptions files = options();
  files.links = LinkMode::Files;
  const fs::path snapshot = download(files);
  EXPECT_FALSE(fs::is_symlink(snapshot / kShard));
  EXPECT_TRUE(fs::is_empty(repo_cache() / "blobs")) << "moved, not copied";
  expect_complete(snapshot);
  const std::size_t before = requests("GET", "");
  EXPECT_EQ(download(files), snapshot);
  EXPECT_LE(requests("GET", "") - before, 10U) << "only the API";
  const Wanted all;
  EXPECT_EQ(find_snapshot(files, RepoId::parse(kModel), "main", all).folder, snapshot);
}

TEST_F(HubTest, BlobThatAnotherSnapshotLinksIsCopiedWithoutLinks) {
  const fs::path snapshot = download(options());
  fs::remove(snapshot / kShard);
  fs::create_symlink(
      fs::path("../../../blobs") / fs::canonical(snapshot / "model_index.json").filename(),
      snapshot / "transformer" / "again");
  fs::remove(snapshot / "model_index.json");
  HubOptions files = options();
  files.links = LinkMode::Files;
  EXPECT_EQ(download(files), snapshot);
  EXPECT_FALSE(fs::is_symlink(snapshot / "model_index.json"));
  EXPECT_TRUE(fs::exists(snapshot / "transformer" / "again")) << "its blob stays";
}

TEST_F(HubTest, TwoProcessesDownloadOnce) {
  set_rules({{{"match", "cdn GET .*00001"}, {"rate", 600000}}});
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int status = 1;
      try {
        (void)download(options());
        status = 0;
      } catch (const Error&) {}
      std::_Exit(status);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(requests("GET", "00001-of-00002.safetensors?signature"), 1U);
  expect_complete(download(options()));
}

TEST_F(HubTest, WaitsForTheLockOfAnotherAndSaysSo) {
  const auto plan = plan_download(options(), RepoId::parse(kModel), "main", {}, events_);
  const io::hub::RepoCache cache(options(), RepoId::parse(kModel));
  cache.make_folders();
  auto lock = std::make_unique<io::hub::BlobLock>(cache.lock(plan.files[4].etag), nullptr, nullptr);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    lock.reset();
  });
  expect_complete(run_download(options(), plan, events_));
  other.join();
  EXPECT_THAT(notes_, Contains(HasSubstr("another process downloads it; waiting")));
}

TEST_F(HubTest, OfflineTakesACompleteSnapshotOnly) {
  HubOptions offline = options();
  offline.offline = true;
  Error e = download_error(offline);
  EXPECT_EQ(e.code(), ErrorCode::NotFound);
  EXPECT_THAT(e.message(), HasSubstr("HF_HUB_OFFLINE"));
  const fs::path snapshot = download(options());
  const std::size_t before = log().size();
  EXPECT_EQ(download(offline), snapshot);
  EXPECT_EQ(log().size(), before);
  fs::remove(fs::canonical(snapshot / kShard));  // a link that leads nowhere
  e = download_error(offline);
  EXPECT_THAT(e.message(), HasSubstr("lacks transformer/diffusion_pytorch_model-00001"));
  EXPECT_EQ(find_snapshot(options(), RepoId::parse(kModel), "main", {}).folder, "");
  expect_complete(download(options()));
}

TEST_F(HubTest, UnreachableHubIsReplacedByTheCache) {
  const fs::path snapshot = download(options());
  HubOptions unreachable = options();
  unreachable.endpoint = "http://127.0.0.1:1";
  const auto plan = plan_download(unreachable, RepoId::parse(kModel), "main", {}, events_);
  EXPECT_THAT(plan.note, HasSubstr("connect"));
  EXPECT_EQ(run_download(unreachable, plan, events_), snapshot);
}

TEST_F(HubTest, PartsThatAreNotThereYetCountAsIncomplete) {
  const fs::path snapshot = download(options());
  const auto found = [&] { return find_snapshot(options(), RepoId::parse(kModel), "main", {}); };
  EXPECT_EQ(found().folder, snapshot);
  for (const char* part : {"tokenizer", "transformer"}) {
    fs::rename(snapshot / part, folder_ / "aside");
    EXPECT_EQ(found().folder, "");
    EXPECT_THAT(found().reason, HasSubstr(part));
    fs::rename(folder_ / "aside", snapshot / part);
  }
  EXPECT_EQ(found().folder, snapshot);
}

TEST_F(HubTest, ListsModelsAsTheHubsOwnToolCounts) {
  EXPECT_TRUE(list_models(options()).empty());
  const fs::path snapshot = download(options());
  std::ofstream(repo_cache() / "blobs" / "0123.incomplete") << "12345";
  fs::create_directories(cache() / "models--org--broken" / "refs");
  fs::create_directories(cache() / "datasets--org--data" / "snapshots");
  const auto models = list_models(options());
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models[0].id, "org/broken");
  EXPECT_THAT(models[0].problem, HasSubstr("snapshots"));
  EXPECT_EQ(models[1].id, kModel);
  EXPECT_EQ(models[1].files, 8U);
  EXPECT_EQ(models[1].incomplete_bytes, 5U);
  ASSERT_EQ(models[1].revisions.size(), 1U);
  EXPECT_EQ(models[1].revisions[0].refs, std::vector<std::string>{"main"});
  EXPECT_EQ(models[1].revisions[0].bytes, models[1].bytes);
  EXPECT_GT(models[1].bytes, kLargeBytes);
}

}  // namespace
}  // namespace difflet::testing
