#include "tests/artifact/store_testing.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "difflet/base/sha256.h"

namespace difflet::testing {

namespace fs = std::filesystem;

Arguments joined(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<Json> json_rows(const std::string& lines) {
  std::vector<Json> rows;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) {
    rows.push_back(parse_json(line, "row"));
  }
  return rows;
}

std::string read_bytes(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  EXPECT_TRUE(stream.is_open()) << file;
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string digest(const fs::path& file) { return sha256_hex(read_bytes(file)); }

void write_bytes(const fs::path& file, const std::string& bytes) {
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  EXPECT_TRUE(stream << bytes) << file;
}

void flip_bit(const fs::path& file, std::size_t byte) {
  std::string bytes = read_bytes(file);
  ASSERT_LT(byte, bytes.size()) << file;
  bytes[byte] = static_cast<char>(bytes[byte] ^ 4);
  write_bytes(file, bytes);
}

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    all[name] = entry.is_symlink()        ? "-> " + fs::read_symlink(entry.path()).string()
                : entry.is_directory()    ? "/"
                : entry.is_regular_file() ? digest(entry.path())
                                          : "?";
  }
  return all;
}

fs::path golden_case(const std::string& name) {
  return fs::path(DIFFLET_SOURCE_DIR) / "tests/golden/data" / name;
}

const std::vector<std::string>& cpu_levels() {
  static const std::vector<std::string> levels = [] {
    std::vector<std::string> all;
    const fs::path vae = golden_case("autoencoder_kl/two_levels_plain");
    const TemporaryFolder folder;
    for (const char* level : {"scalar", "avx2", "avx512", "avx512bf16"}) {
      const ProcessResult result = run_difflet(
          {"eval", "--model", vae.string(), "--inputs", (vae / "inputs.safetensors").string(),
           "--output", (folder / "out").string(), "--artifact", "off", "--cpu-level", level});
      if (result.status != 4) {  // unsupported
        EXPECT_EQ(result.status, 0) << result.err;
        all.emplace_back(level);
      }
    }
    return all;
  }();
  return levels;
}

void StoreTest::use(const std::string& name, const std::string& dtype) {
  case_ = golden_case(name);
  model_ = {"--model", case_.string(), "--inputs", (case_ / "inputs.safetensors").string(),
            "--dtype", dtype};
  const Json json = parse_json(read_bytes(case_ / "case.json"), "case.json");
  if (json.at("variant").is_string()) {
    model_.emplace_back("--variant");
    model_.push_back(json["variant"].get<std::string>());
  }
}

Arguments StoreTest::arguments(const Arguments& command, const Arguments& more) const {
  return joined(joined(joined(command, model_), {"--cache-dir", store_.string()}), more);
}

Arguments StoreTest::eval_arguments(const std::string& mode, const Arguments& more) const {
  return joined(arguments({"eval"}, {"--artifact", mode, "--output", output_.string()}), more);
}

ProcessResult StoreTest::compile(const Arguments& more) const {
  return run_difflet(arguments({"compile", "--json"}, more));
}

Arguments StoreTest::compiled(const Arguments& more) const {
  const ProcessResult result = compile(more);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.err.empty() || result.err.find("is made anew: ") != std::string::npos)
      << result.err;
  Arguments results;
  for (const Json& row : json_rows(result.out)) {
    results.push_back(row.at("result").get<std::string>());
    EXPECT_EQ(row.at("key").get<std::string>().size(), 16U);
  }
  return results;
}

std::string StoreTest::evaluated(const std::string& mode, const Arguments& more) const {
  fs::remove(output_);
  const ProcessResult result = run_difflet(eval_arguments(mode, more));
  EXPECT_EQ(result.status, 0) << result.err;
  return result.status == 0 ? digest(output_) : "";
}

ProcessResult StoreTest::cache(const std::string& verb, const Arguments& more) const {
  return run_difflet(joined({"cache", verb, "--cache-dir", store_.string()}, more));
}

std::vector<Json> StoreTest::cache_rows(const std::string& verb, const Arguments& more) const {
  const ProcessResult result = cache(verb, joined({"--json"}, more));
  EXPECT_EQ(result.status, 0) << verb << ": " << result.err;
  return json_rows(result.out);
}

void StoreTest::expect_damage(const std::string& said, const std::string& reason,
                              const std::string& damaged) {
  const std::string right = evaluated("off");
  fs::remove(output_);
  const ProcessResult automatic = run_difflet(eval_arguments("auto"));
  EXPECT_EQ(automatic.status, 0) << automatic.err;
  EXPECT_EQ(digest(output_), right);
  EXPECT_EQ(std::count(automatic.err.begin(), automatic.err.end(), '\n'), 1) << automatic.err;
  EXPECT_NE(automatic.err.find(said), std::string::npos) << automatic.err;
  fs::remove(output_);
  expect_refused(eval_arguments("require"), 3, reason);
  EXPECT_FALSE(fs::exists(output_));
  const ProcessResult verify = cache("verify");
  EXPECT_EQ(verify.status, 6) << verify.err;
  EXPECT_NE(verify.out.find(damaged), std::string::npos) << verify.out;
  EXPECT_EQ(compiled().size(), 1U);
  EXPECT_EQ(evaluated("require"), right);
  EXPECT_EQ(cache("gc").status, 0);
  EXPECT_EQ(cache_rows("verify").size(), 2U) << "an artifact and its weights";
  EXPECT_EQ(evaluated("require"), right);
}

namespace {

fs::path newest(const fs::path& kind, const std::string& name) {
  std::vector<fs::path> all;
  for (const fs::directory_entry& key : fs::directory_iterator(kind)) {
    for (const fs::directory_entry& generation : fs::directory_iterator(key)) {
      all.push_back(generation.path());
    }
  }
  EXPECT_FALSE(all.empty()) << kind;
  const auto at = std::max_element(
      all.begin(), all.end(),
      [](const fs::path& a, const fs::path& b) { return a.filename() < b.filename(); });
  return *at / name;
}

}  // namespace

fs::path StoreTest::artifact_file(const std::string& name) const {
  return newest(store_ / "artifacts", name);
}

fs::path StoreTest::weights_file(const std::string& name) const {
  return newest(store_ / "weights", name);
}

}  // namespace difflet::testing
