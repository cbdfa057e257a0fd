// The verbs of `difflet cache` that change the store, and `difflet clean`.
#include <filesystem>
#include <string>

#include "difflet/artifact/store.h"
#include "difflet/base/units.h"
#include "difflet/cli/command.h"
#include "difflet/cli/progress.h"
#include "difflet/cli/store_entries.h"
#include "difflet/cli/targets.h"
#include "difflet/cli/writable.h"

namespace difflet::cli {
namespace {

using artifact::Removal;
using artifact::RemovalMode;

RemovalMode removal_mode(const OptionValues& options) {
  return options.flag("dry-run") ? RemovalMode::DryRun : RemovalMode::Delete;
}

// "artifacts/<key>/..." or "weights/<key>/..." -> <key>; empty for what has none.
std::string key_in(const std::string& path) {
  const std::filesystem::path parts(path);
  const bool has_key = std::distance(parts.begin(), parts.end()) > 1 &&
                       (*parts.begin() == "artifacts" || *parts.begin() == "weights");
  const std::string second = has_key ? std::next(parts.begin())->string() : std::string();
  return artifact::is_key(second) ? second : "";
}

void print_removal(const OptionValues& options, const Removal& removal) {
  const auto show = [&](const Removal::Item& item, std::string_view what) {
    if (options.flag("json")) {
      print_event({{"key", key_in(item.path)},
                   {"path", item.path},
                   {"bytes", item.bytes},
                   {"action", what},
                   {"reason", item.reason}});
    } else {
      print(fmt::format("{} {} ({}{}{})\n", what, item.path, readable_bytes(item.bytes),
                        item.reason.empty() ? "" : ": ", item.reason));
    }
  };
  for (const Removal::Item& item : removal.removed) {
    show(item, options.flag("dry-run") ? "would delete" : "deleted");
  }
  for (const Removal::Item& item : removal.kept) {
    show(item, "kept");
  }
}

}  // namespace

void run_cache_rm(const OptionValues& options) {
  const artifact::Store store(cache_dir(options));
  for (const std::string& key : keys_of(store, options.texts("key"))) {
    print_removal(options, store.remove(key, removal_mode(options)));
  }
}

void run_cache_gc(const OptionValues& options) {
  print_removal(options, artifact::Store(cache_dir(options)).gc(removal_mode(options)));
}

void run_clean(const OptionValues& options) {
  print_removal(options, artifact::Store(cache_dir(options)).clean(removal_mode(options)));
}

void run_cache_export(const OptionValues& options) {
  const artifact::Store store(cache_dir(options));
  const std::vector<std::string> keys = keys_of(store, options.texts("key"));
  check(keys.size() == 1, ErrorCode::InvalidArgument,
        "cache export writes one artifact, {} keys are given", keys.size());
  const std::filesystem::path output = options.text("output");
  check_writable(output);
  store.export_archive(keys.front(), output);
  if (options.flag("json")) {
    print_event({{"key", keys.front()}, {"path", output.string()}});
  } else {
    print(output.string() + "\n");
  }
}

void run_cache_import(const OptionValues& options) {
  const artifact::Store store(cache_dir(options));
  for (const std::string& file : options.texts("file")) {
    const artifact::Artifact artifact = store.import_archive(file);
    if (options.flag("json")) {
      print_event({{"key", artifact.key()}, {"generation", artifact.generation()}, {"path", file}});
    } else {
      print(fmt::format("{} {}\n", artifact.key(), artifact.generation()));
    }
  }
}

}  // namespace difflet::cli
