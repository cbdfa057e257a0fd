// difflet generate, from arguments to files.
#include <csignal>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/cli/process.h"

#include "difflet/base/json.h"
#include "difflet/io/image.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

// A small picture in few steps; `more` comes last.
Arguments small(const fs::path& model, const fs::path& output, const Arguments& more = {}) {
  Arguments all{"generate",      "--model", model.string(),          "--output",
                output.string(), "--quiet", "--max-sequence-length", "16",
                "--steps",       "2"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

class Generate : public ::testing::Test {
 protected:
  // Refused, and nothing is left in the output folder.
  void refused(const Arguments& more, int status, const std::string& part,
               const ProcessOptions& options = {}) {
    expect_refused(small(model_, folder_ / "x.png", more), status, part, options);
    EXPECT_EQ(files_in(folder_.path()), Arguments{}) << part;
  }
  io::Image picture(const Arguments& more) {
    const fs::path file = folder_ / "picture.png";
    const ProcessResult result = run_difflet(small(model_, file, more));
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, file.string() + "\n");
    io::Image image = io::read_png(file);
    fs::remove(file);
    return image;
  }

  fs::path model_ = golden_model("schnell");
  TemporaryFolder folder_;
};

TEST_F(Generate, WritesAPictureWithItsParameters) {
  const ProcessResult result =
      run_difflet(small(model_, folder_ / "x.png", {"--prompt", "a café", "--seed", "5"}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  std::map<std::string, std::string> text;
  const io::Image image = io::read_png(folder_ / "x.png", &text);
  EXPECT_EQ(image.width, 32);  // the VAE's sample_size
  EXPECT_EQ(image.height, 32);
  EXPECT_EQ(text["prompt"], "a café");
  EXPECT_EQ(text["seed"], "5");
  EXPECT_EQ(text["steps"], "2");
  EXPECT_EQ(text["size"], "32x32");
  EXPECT_EQ(text["software"], "difflet " DIFFLET_VERSION);
  EXPECT_EQ(files_in(folder_.path()), Arguments{"x.png"});
}

TEST_F(Generate, SeedsAndPromptsChangeThePictureRepeatsDoNot) {
  const io::Image one = picture({"--prompt", "a moon"});
  EXPECT_EQ(picture({"--prompt", "a moon"}).rgb, one.rgb);
  EXPECT_EQ(picture({"--prompt", "a moon", "--threads", "1"}).rgb, one.rgb);
  EXPECT_NE(picture({"--prompt", "a moon", "--seed", "1"}).rgb, one.rgb);
  EXPECT_NE(picture({"--prompt", "two cats"}).rgb, one.rgb);
  // As torch's manual_seed: -1 is 2^64 - 1.
  EXPECT_EQ(picture({"--prompt", "p", "--seed", "-1"}).rgb,
            picture({"--prompt", "p", "--seed", "18446744073709551615"}).rgb);
}

TEST_F(Generate, SeveralPicturesAreNumbered) {
  const ProcessResult result =
      run_difflet(small(model_, folder_ / "x.webp", {"--prompt", "p", "--n", "3"}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(files_in(folder_.path()), (Arguments{"x-0.webp", "x-1.webp", "x-2.webp"}));
  EXPECT_EQ(result.out, (folder_ / "x-0.webp").string() + "\n" + (folder_ / "x-1.webp").string() +
                            "\n" + (folder_ / "x-2.webp").string() + "\n");
}

TEST_F(Generate, JsonEventsNameStagesStepsAndFiles) {
  const ProcessResult result =
      run_difflet({"generate", "--model", model_.string(), "--output", (folder_ / "x.jpg").string(),
                   "--prompt", "p", "--json", "--steps", "3", "--max-sequence-length", "16"});
  EXPECT_EQ(result.status, 0) << result.err;
  std::map<std::string, int> events;
  std::istringstream lines(result.out);
  Json last;
  for (std::string line; std::getline(lines, line);) {
    last = parse_json(line, "event");
    ++events[last.at("event").get<std::string>()];
  }
  EXPECT_EQ(events["start"], 1);
  EXPECT_EQ(events["step"], 3);
  EXPECT_GE(events["stage"], 3);
  EXPECT_EQ(events["output"], 1);
  EXPECT_EQ(last.at("event"), "done");
  EXPECT_GT(last.at("peak_rss_bytes").get<double>(), 0);
}

TEST_F(Generate, AnyPromptMakesAPicture) {
  picture({"--prompt", ""});
  picture({"--prompt", "--dashes", "--negative-prompt", ""});
  std::string words;
  for (int i = 0; i < 10'000; ++i) {
    words += "word" + std::to_string(i) + ' ';
  }
  Arguments arguments = small(model_, folder_ / "x.png", {"--prompt", words});
  std::erase(arguments, "--quiet");
  const ProcessResult result = run_difflet(arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("warning: text_encoder (CLIP) reads 77 tokens; it does not see"),
            std::string::npos)
      << result.err;
  EXPECT_LT(result.err.size(), 4000U);
}

TEST_F(Generate, WrongRequestsAreRefused) {
  refused({"--prompt", "broken \xff text"}, 2, "prompt");
  refused({"--prompt", "p", "--width", "63"}, 2, "nearest legal sizes are 60 and 64");
  refused({"--prompt", "p", "--height", "65"}, 2, "nearest legal sizes are 64 and 68");
  refused({"--prompt", "p", "--width", "1"}, 2, "nearest legal sizes are 4");
  refused({"--prompt", "p", "--n", "1000000"}, 5, "of memory");
  refused({"--prompt", "p", "--width", "65536", "--height", "65536"}, 5, "of memory");
  refused({"--prompt", "p", "--variant", "fp16"}, 3, "fp16");
  refused({"--prompt", "p", "--backend", "reference", "--cpu-level", "avx2"}, 2, "avx2");
}

TEST_F(Generate, StepsEndAtTheSchedulersTrainingSteps) {
  expect_refused({"generate", "--model", model_.string(), "--prompt", "p", "--steps", "1001",
                  "--output", (folder_ / "x.png").string()},
                 2, "1 ... 1000 (the scheduler's num_train_timesteps)");
}

TEST_F(Generate, OutputsThatCannotBeAreRefusedBeforeWork) {
  const auto to = [&](const fs::path& output) {
    return Arguments{"generate", "--model",  model_.string(), "--prompt",
                     "p",        "--output", output.string()};
  };
  expect_refused(to(folder_ / "none/x.png"), 3, "no folder");
  expect_refused(to(folder_ / "x.gif"), 2, ".png");
  expect_refused(to(folder_ / "x"), 2, ".png");
  fs::create_directory(folder_ / "y.png");
  expect_refused(to(folder_ / "y.png"), 2, "not a regular file");
  expect_refused(to("/dev/null/x.png"), 2, "not a folder");
}

TEST_F(Generate, EveryOutputIsCheckedBeforeWork) {
  const auto two = small(model_, folder_ / "x.png", {"--prompt", "p", "--n", "2"});
  std::ofstream(folder_ / "x-0.png") << "old";
  fs::create_directory(folder_ / "x-1.png");
  expect_refused(two, 2, "x-1.png': not a regular file");
  fs::remove(folder_ / "x-1.png");
  fs::create_symlink("x-0.png", folder_ / "x-1.png");
  expect_refused(two, 2, "another picture goes to the same file");
  EXPECT_EQ(fs::file_size(folder_ / "x-0.png"), 3);
  expect_refused(small(model_, folder_ / "x.webp", {"--prompt", "p", "--width", "16384"}), 2,
                 "WebP holds at most 16383 pixels");
}

TEST_F(Generate, AFailureKeepsTheOldPictures) {
  ProcessOptions options;
  options.file_limit = 512;
  std::ofstream(folder_ / "x-0.png") << "old";
  expect_refused(small(model_, folder_ / "x.png", {"--prompt", "p", "--n", "2"}), 5, "cannot write",
                 options);
  EXPECT_EQ(files_in(folder_.path()), Arguments{"x-0.png"});
  EXPECT_EQ(fs::file_size(folder_ / "x-0.png"), 3);
}

TEST_F(Generate, StreamsThatAreClosedOrFullDoNotSpoilThePicture) {
  const Arguments arguments{"generate",
                            "--model",
                            model_.string(),
                            "--prompt",
                            "p",
                            "--steps",
                            "1",
                            "--max-sequence-length",
                            "16",
                            "--output",
                            (folder_ / "x.png").string()};
  ProcessOptions options;
  options.standard_error = "/dev/full";
  EXPECT_EQ(run_difflet(arguments, options).status, 0);
  options.standard_error.clear();
  options.closed_streams = {0, 1, 2};
  EXPECT_EQ(run_difflet(arguments, options).status, 7);  // nobody learns the path
  EXPECT_EQ(io::read_png(folder_ / "x.png").width, 32);
}

TEST_F(Generate, AModelsNameNeedNotBeUtf8) {
  const fs::path model = folder_ / "m\xff";
  copy_model("schnell", model);
  std::map<std::string, std::string> text;
  EXPECT_EQ(run_difflet(small(model, folder_ / "x.png", {"--prompt", "p"})).status, 0);
  (void)io::read_png(folder_ / "x.png", &text);
  EXPECT_EQ(text["model"], "m\xEF\xBF\xBD");
}

TEST_F(Generate, AFullDiskLeavesNothing) {
  ProcessOptions options;
  options.file_limit = 512;  // the picture is larger
  refused({"--prompt", "p"}, 5, "cannot write", options);
  refused({"--prompt", "p", "--n", "2"}, 5, "cannot write", options);
}

TEST_F(Generate, ASignalStopsWithinAStepAndLeavesNothing) {
  for (const int signal : {SIGINT, SIGTERM}) {
    ProcessOptions options;
    options.stop_signal = signal;
    options.stop_after = "step 1/";
    const ProcessResult result =
        run_difflet({"generate", "--model", golden_model("dev").string(), "--prompt", "p",
                     "--steps", "1000", "--output", (folder_ / "x.png").string()},
                    options);
    EXPECT_EQ(result.status, 130) << result.err;
    EXPECT_NE(result.err.find("difflet: error: stopped by"), std::string::npos) << result.err;
    EXPECT_LT(result.seconds_after_signal, 10);
    EXPECT_EQ(files_in(folder_.path()), Arguments{});
  }
}

}  // namespace
}  // namespace difflet::testing
