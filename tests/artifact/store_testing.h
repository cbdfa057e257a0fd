// What tests of the artifact store through the binary share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/cli/process.h"

#include "difflet/base/json.h"

namespace difflet::testing {

using Arguments = std::vector<std::string>;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

Arguments joined(Arguments a, const Arguments& b);
std::vector<Json> json_rows(const std::string& lines);
std::string read_bytes(const std::filesystem::path& file);
std::string digest(const std::filesystem::path& file);  // SHA-256 of its bytes
void write_bytes(const std::filesystem::path& file, const std::string& bytes);
void flip_bit(const std::filesystem::path& file, std::size_t byte);
// Everything below a folder by its relative path: a file's digest, "-> target", "/" for a folder.
std::map<std::string, std::string> contents(const std::filesystem::path& folder);
std::filesystem::path golden_case(const std::string& name);  // "flux_transformer/tiny"
// The cpu backend's levels that this chip has, the least first.
const std::vector<std::string>& cpu_levels();

// A store, and one component that is compiled into it.
class StoreTest : public ::testing::Test {
 protected:
  // A golden case instead of the one that is set.
  void use(const std::string& name, const std::string& dtype = "f32");

  // `command` with the model, its inputs and the store.
  Arguments arguments(const Arguments& command, const Arguments& more = {}) const;
  Arguments eval_arguments(const std::string& mode, const Arguments& more = {}) const;
  ProcessResult compile(const Arguments& more = {}) const;
  Arguments compiled(const Arguments& more = {}) const;  // must succeed; the results of its rows
  // The output file's digest; must succeed.
  std::string evaluated(const std::string& mode, const Arguments& more = {}) const;
  ProcessResult cache(const std::string& verb, const Arguments& more = {}) const;
  std::vector<Json> cache_rows(const std::string& verb, const Arguments& more = {}) const;

  // Auto gives the right output, saying `said`; require refuses with `reason`; verify, with status 6,
  // names `damaged`. Then compile repairs it and gc leaves nothing else behind.
  void expect_damage(const std::string& said, const std::string& reason,
                     const std::string& damaged);

  // The files of the newest generations.
  std::filesystem::path artifact_file(const std::string& name) const;
  std::filesystem::path weights_file(const std::string& name) const;

  TemporaryFolder folder_;
  std::filesystem::path store_ = folder_ / "store";
  std::filesystem::path output_ = folder_ / "out.safetensors";
  std::filesystem::path case_ = golden_case("flux_transformer/tiny");
  Arguments model_{"--model", case_.string(), "--inputs", (case_ / "inputs.safetensors").string(),
                   "--dtype", "f32"};
};

}  // namespace difflet::testing
