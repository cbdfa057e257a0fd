// Compiles that are killed, stopped, refused, or at work at the same time.
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "tests/artifact/store_testing.h"

#include "difflet/io/safetensors.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr int kKills = kSanitized ? 20 : 100;

class Stop : public StoreTest {
 protected:
  // Another key for each number.
  static Arguments variant(int i) { return {"--schedule-capacity", fmt::format("{}", i + 1)}; }
  std::unique_ptr<Process> start(const Arguments& more = {}) const {
    return std::make_unique<Process>(
        difflet_words(arguments({"compile", "--json"}, joined({"--threads", "1"}, more))),
        ProcessOptions{});
  }
  // A compile that was frozen while it held the lock of its key; null when it was too quick.
  std::unique_ptr<Process> frozen(int number) const {
    const auto locks = [&] {
      std::error_code absent;
      const fs::directory_iterator all(store_ / "locks", absent);
      return absent ? 0 : std::distance(all, fs::directory_iterator());
    };
    const auto before = locks();
    std::unique_ptr<Process> process = start(variant(number));
    while (process->running() && locks() == before) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    process->signal(SIGSTOP);
    return process->running() && contains_staging() ? std::move(process) : nullptr;
  }
  std::unique_ptr<Process> some_frozen(int& number) const {
    for (int i = 0; i < 50; ++i) {
      if (auto process = frozen(++number)) {
        return process;
      }
    }
    ADD_FAILURE() << "no compile could be frozen";
    return nullptr;
  }
  bool contains_staging() const {
    std::error_code absent;
    const fs::directory_iterator all(store_ / "staging", absent);
    return !absent && all != fs::directory_iterator();
  }
  // Files besides the marker, locks and fingerprints.
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& [name, digest] : contents(store_)) {
      if (digest != "/" && name != "store.json" && !name.starts_with("locks/") &&
          !name.starts_with("fingerprints/")) {
        names.push_back(name);
      }
    }
    return names;
  }
};

TEST_F(Stop, KilledAtAnyPointTheStoreWorks) {
  const std::string right = evaluated("off");
  std::vector<double> durations;
  for (int i = 0; i < 3; ++i) {
    const auto begin = steady_clock::now();
    EXPECT_EQ(start(variant(200 + i))->wait().status, 0);
    durations.push_back(std::chrono::duration<double>(steady_clock::now() - begin).count());
  }
  std::ranges::sort(durations);
  std::mt19937 random(11);
  std::uniform_real_distribution<double> delay(0, durations[1]);
  int killed = 0;
  for (int i = 0; i < kKills; ++i) {
    const auto process = start(variant(i));
    std::this_thread::sleep_for(std::chrono::duration<double>(delay(random)));
    process->signal(SIGKILL);
    killed += process->wait().status == -SIGKILL ? 1 : 0;
    EXPECT_EQ(cache("ls").status, 0);
    const ProcessResult verify = cache("verify");
    EXPECT_EQ(verify.status, 0) << i << verify.err << verify.out;
    if (i % 10 == 9) {
      EXPECT_EQ(evaluated("auto", variant(i)), right);
      EXPECT_EQ(compiled(variant(i)).size(), 1U);
      EXPECT_EQ(evaluated("require", variant(i)), right);
    }
  }
  EXPECT_GT(killed, kKills / 2);
  EXPECT_EQ(cache("gc").status, 0);
  EXPECT_FALSE(contains_staging());
  EXPECT_EQ(evaluated("auto"), right);
  EXPECT_EQ(cache("verify").status, 0);
}

TEST_F(Stop, ProcessesAtTheSameTimeCompileOnce) {
  for (const int count : {2, 5}) {
    std::vector<std::unique_ptr<Process>> all;
    for (int i = 0; i < count; ++i) {
      all.push_back(start(variant(count)));
    }
    std::map<std::string, int> results;
    for (const auto& process : all) {
      const ProcessResult result = process->wait();
      EXPECT_EQ(result.status, 0) << result.err;
      for (const Json& row : json_rows(result.out)) {
        EXPECT_EQ(row.at("generation"), "g000001");
        ++results[row.at("result").get<std::string>()];
      }
    }
    EXPECT_EQ(results, (std::map<std::string, int>{{"compiled", 1}, {"present", count - 1}}));
  }
  EXPECT_EQ(cache_rows("ls").size(), 4U);
}

// Another size waits for the weights that the first one packs.
TEST_F(Stop, SizesAtTheSameTimeShareOneSetOfWeights) {
  std::vector<std::unique_ptr<Process>> all;
  for (const char* width : {"16", "32", "48"}) {
    all.push_back(std::make_unique<Process>(
        difflet_words({"compile", "--json", "--model", golden_model("schnell").string(),
                       "--component", "transformer", "--cache-dir", store_.string(), "--height",
                       "32", "--width", width}),
        ProcessOptions{}));
  }
  for (const auto& process : all) {
    const ProcessResult result = process->wait();
    EXPECT_EQ(result.status, 0) << result.err;
  }
  EXPECT_EQ(cache_rows("ls").size(), 4U);
}

TEST_F(Stop, AWaiterTakesOverFromAKilledOne) {
  int number = 0;
  const auto holder = some_frozen(number);
  ASSERT_NE(holder, nullptr);
  const auto waiter = start(variant(number));
  waiter->wait_for("waiting for process ");
  EXPECT_TRUE(waiter->running());
  holder->signal(SIGKILL);
  const ProcessResult result = waiter->wait();
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find(", compiling FluxTransformer2DModel, since 20"), std::string::npos)
      << result.err;
  EXPECT_EQ(json_rows(result.out).at(0).at("result"), "compiled");
  EXPECT_FALSE(contains_staging()) << "what the killed one left is gone";
  EXPECT_EQ(evaluated("require", variant(number)), evaluated("off"));
}

TEST_F(Stop, CtrlCLeavesNothing) {
  int number = 100;
  bool stopped = false;
  for (int i = 0; i < 10 && !stopped; ++i) {
    const auto process = some_frozen(number);
    ASSERT_NE(process, nullptr);
    process->signal(SIGINT);
    process->signal(SIGCONT);
    const ProcessResult result = process->wait();
    stopped = result.status == 130;
    if (stopped) {
      EXPECT_TRUE(json_rows(result.out).empty());
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    }
    EXPECT_EQ(cache("rm", {"--dry-run", "ffff"}).status, 3);
    if (!stopped) {  // it was ready to publish
      fs::remove_all(store_);
    }
  }
  EXPECT_TRUE(stopped);
  EXPECT_EQ(left(), Arguments{});
}

TEST_F(Stop, CtrlCEndsAWait) {
  int number = 0;
  const auto holder = some_frozen(number);
  ASSERT_NE(holder, nullptr);
  const auto waiter = start(variant(number));
  waiter->wait_for("waiting for process ");
  waiter->signal(SIGINT);
  EXPECT_EQ(waiter->wait().status, 130);
  holder->signal(SIGCONT);
  EXPECT_EQ(holder->wait().status, 0);
}

TEST_F(Stop, NaNInAWeightIsNotPublished) {
  const fs::path model = folder_ / "model";
  fs::copy(case_, model);
  const fs::path weights = model / "diffusion_pytorch_model.safetensors";
  const std::string name = "x_embedder.weight";
  std::map<std::string, HostTensor> tensors;
  {
    const auto file = io::SafetensorsFile::open(weights);
    for (const auto& [key, entry] : file.entries()) {
      HostTensor copy(entry.dtype, entry.shape);
      std::ranges::copy(file.tensor(key).bytes(), copy.mutable_bytes().begin());
      tensors.emplace(key, std::move(copy));
    }
    ASSERT_TRUE(tensors.contains(name));
    const float nan = std::numeric_limits<float>::quiet_NaN();
    ASSERT_EQ(tensors.at(name).dtype(), DType::F32);
    std::memcpy(tensors.at(name).mutable_bytes().data() + 8, &nan, sizeof(nan));
  }
  io::write_safetensors(weights, tensors);
  model_[1] = model.string();
  expect_refused(arguments({"compile"}), 6, name);
  EXPECT_EQ(left(), Arguments{});
  EXPECT_TRUE(cache_rows("ls").empty());
  EXPECT_EQ(cache("verify").status, 0);
}

}  // namespace
}  // namespace difflet::testing
