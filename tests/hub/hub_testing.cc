#include "tests/hub/hub_testing.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "difflet/io/hub/digest.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

const std::vector<std::string> kWantedFiles{
    "model_index.json",
    "scheduler/scheduler_config.json",
    "tokenizer/tokenizer.json",
    "tokenizer/tokenizer_config.json",
    "transformer/config.json",
    "transformer/diffusion_pytorch_model-00001-of-00002.safetensors",
    "transformer/diffusion_pytorch_model-00002-of-00002.safetensors",
    "transformer/diffusion_pytorch_model.safetensors.index.json"};

}  // namespace

std::string noise_text(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& c : text) {
    c = static_cast<char>(random() & 0xffU);
  }
  return text;
}

void HubTest::SetUp() {
  const fs::path root = folder_ / "root";
  add_file(kModel, "model_index.json",
           R"({"_class_name": "TinyPipeline", "transformer": ["diffusers", "TinyModel"],
               "tokenizer": ["transformers", "TinyTokenizer"], "safety": [null, null],
               "scheduler": ["diffusers", "TinyScheduler"], "unused": true})");
  add_file(kModel, "scheduler/scheduler_config.json", "{}");
  add_file(kModel, "tokenizer/tokenizer.json", noise_text(2500, 1));
  add_file(kModel, "tokenizer/tokenizer_config.json", R"({"a": 1})");
  add_file(kModel, "transformer/config.json", R"({"_class_name": "TinyModel"})");
  add_file(kModel, "transformer/diffusion_pytorch_model.safetensors.index.json",
           R"({"weight_map": {"a": "diffusion_pytorch_model-00001-of-00002.safetensors",
                              "b": "diffusion_pytorch_model-00002-of-00002.safetensors"}})");
  add_file(kModel, "transformer/diffusion_pytorch_model-00001-of-00002.safetensors",
           noise_text(kLargeBytes, 2));
  add_file(kModel, "transformer/diffusion_pytorch_model-00002-of-00002.safetensors",
           noise_text(70000, 3));
  for (const char* unused :
       {"README.md", "tiny.safetensors", "transformer/diffusion_pytorch_model.bin",
        "transformer/diffusion_pytorch_model.fp16.safetensors", "safety/config.json",
        "transformer/model.onnx", "flax_model.msgpack"}) {
    add_file(kModel, unused, noise_text(1500, 4));
  }
  process_ = ::fork();
  ASSERT_GE(process_, 0);
  if (process_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execlp("python3", "python3", DIFFLET_SOURCE_DIR "/tests/hub/fake_hub.py", root.c_str(),
             static_cast<char*>(nullptr));
    std::_Exit(127);
  }
  for (int i = 0; i < 2000 && !fs::exists(root / "ports.json"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const Json ports = read_json_file(root / "ports.json");
  hub_port_ = ports["hub"].get<int>();
  cdn_port_ = ports["cdn"].get<int>();
  events_.note = [this](const std::string& text) { notes_.push_back(text); };
}

void HubTest::TearDown() {
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
}

void HubTest::add_file(const std::string& repo, const std::string& path,
                       const std::string& content) const {
  const fs::path file = folder_ / "root" / "repos" / repo / path;
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << content;
}

void HubTest::set_rules(const Json& rules) const {
  const fs::path file = folder_ / "root" / "rules.json";
  std::ofstream(file.string() + ".tmp") << rules.dump();
  fs::rename(file.string() + ".tmp", file);
}

std::vector<Json> HubTest::log() const {
  std::ifstream file(folder_ / "root" / "log.jsonl");
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(parse_json(line, "log"));
  }
  return lines;
}

std::size_t HubTest::requests(const std::string& method, const std::string& part) const {
  std::size_t count = 0;
  for (const Json& line : log()) {
    count +=
        line["method"] == method && line["path"].get<std::string>().find(part) != std::string::npos
            ? 1
            : 0;
  }
  return count;
}

io::hub::HubOptions HubTest::options() const {
  io::hub::HubOptions options;
  options.cache = cache();
  options.endpoint = endpoint();
  options.connections = 4;
  options.attempts = 4;
  options.first_delay_s = 0.01;
  options.max_delay_s = 0.02;
  options.connect_timeout_s = 5;
  options.stall_timeout_s = 5;
  return options;
}

fs::path HubTest::download(const io::hub::HubOptions& options, const std::string& revision,
                           const std::string& id) {
  const auto plan =
      plan_download(options, io::hub::RepoId::parse(id), revision, io::hub::Wanted{}, events_);
  return run_download(options, plan, events_);
}

Error HubTest::download_error(const io::hub::HubOptions& options, const std::string& revision,
                              const std::string& id) {
  try {
    (void)download(options, revision, id);
  } catch (const Error& e) {
    expect_blobs_right();
    return e;
  }
  ADD_FAILURE() << "the download ended well";
  return {ErrorCode::Internal, ""};
}

void HubTest::expect_complete(const fs::path& snapshot) const {
  std::set<std::string> found;
  for (const fs::directory_entry& item : fs::recursive_directory_iterator(snapshot)) {
    if (!item.is_directory()) {
      found.insert(item.path().lexically_relative(snapshot).generic_string());
    }
  }
  EXPECT_EQ(found, std::set<std::string>(kWantedFiles.begin(), kWantedFiles.end()));
  for (const std::string& path : kWantedFiles) {
    EXPECT_TRUE(read_file(snapshot / path) == read_file(served(path))) << path;
  }
  expect_blobs_right();
}

void HubTest::expect_blobs_right() const {
  std::error_code error;
  for (fs::recursive_directory_iterator item(cache(), error);
       !error && item != fs::recursive_directory_iterator(); ++item) {
    const fs::path path = item->path();
    if (path.parent_path().filename() == "blobs" && path.extension() != ".incomplete") {
      const std::string text = read_file(path);
      io::hub::BlobDigest digest(path.filename(), text.size());
      digest.update(std::as_bytes(std::span(text)));
      EXPECT_EQ(digest.hex(), path.filename().string());
    }
  }
}

}  // namespace difflet::testing
