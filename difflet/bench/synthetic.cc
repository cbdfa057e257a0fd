#include "difflet/bench/synthetic.h"

#include <string>
#include <system_error>

#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/base/json.h"
#include "difflet/base/partial_folder.h"
#include "difflet/base/thread_pool.h"
#include "difflet/bench/synthetic_parts.h"
#include "difflet/bench/synthetic_shards.h"

namespace difflet::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStamp = "difflet-synthetic.json";
// Another number whenever the same recipe gives other bytes.
constexpr int kVersion = 1;

constexpr std::int64_t kMost = 1000;  // layers of a kind

Json stamp_of(const SyntheticFlux& recipe) {
  return {{"pipeline", "flux"},
          {"version", kVersion},
          {"double", recipe.doubles},
          {"single", recipe.singles},
          {"t5_layers", recipe.t5_layers},
          {"clip_layers", recipe.clip_layers}};
}

void check_recipe(const SyntheticFlux& recipe) {
  const auto check_range = [](const char* what, std::int64_t value, std::int64_t least) {
    check(value >= least && value <= kMost, ErrorCode::InvalidArgument,
          "synthetic model: {} {}: expected {} ... {}", value, what, least, kMost);
  };
  check_range("double blocks", recipe.doubles, 0);
  check_range("single blocks", recipe.singles, 0);
  check_range("T5 layers", recipe.t5_layers, 1);
  check_range("CLIP layers", recipe.clip_layers, 1);
}

void write_json(const fs::path& path, const Json& json) {
  const std::string text = json.dump(2) + "\n";
  write_file_atomic(path, std::as_bytes(std::span(text)));
}

void check_replaceable(const fs::path& folder) {
  if (!fs::exists(folder)) {
    return;
  }
  check(fs::is_directory(folder) && (fs::is_empty(folder) || fs::exists(folder / kStamp)),
        ErrorCode::InvalidArgument, "'{}' is there and is not a synthetic model: not replaced",
        folder.string());
}

void write_all(const SyntheticFlux& recipe, const fs::path& folder, Log& log,
               const std::function<void()>& check_stop) {
  for (const SyntheticFile& file : synthetic_files()) {
    fs::create_directories((folder / file.path).parent_path());
    write_json(folder / file.path, file.content);
  }
  ThreadPool threads;
  for (const SyntheticPart& part : synthetic_parts(recipe)) {
    log.info("writing {}", part.folder);
    fs::create_directories(folder / part.folder);
    write_json(folder / part.folder / "config.json", part.config);
    write_random_shards(folder / part.folder, part.weights, part.params, threads, check_stop);
  }
  write_json(folder / kStamp, stamp_of(recipe));
}

}  // namespace

bool is_synthetic(const fs::path& folder, const SyntheticFlux& recipe) {
  std::error_code ignored;
  if (!fs::is_regular_file(folder / kStamp, ignored)) {
    return false;
  }
  try {
    return read_json_file(folder / kStamp) == stamp_of(recipe);
  } catch (const Error&) {
    return false;  // a damaged stamp is that of no recipe
  }
}

void write_synthetic(const SyntheticFlux& recipe, const fs::path& folder, Log& log,
                     const std::function<void()>& check_stop) {
  check_recipe(recipe);
  check(!folder.empty(), ErrorCode::InvalidArgument, "a synthetic model needs a folder");
  // Without a slash at the end, the name of the sibling follows from it.
  const fs::path target = folder.has_filename() ? folder : folder.parent_path();
  if (is_synthetic(target, recipe)) {
    return;
  }
  try {
    check_replaceable(target);
    PartialFolder partial(target);
    write_all(recipe, partial.path(), log, check_stop);
    fs::remove_all(target);
    partial.keep();
  } catch (const fs::filesystem_error& e) {
    fail_errno("write", e.path1(), e.code().value());
  }
}

}  // namespace difflet::bench
