// The verbs of `difflet cache` that change nothing.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "difflet/artifact/store.h"
#include "difflet/base/error.h"
#include "difflet/base/units.h"
#include "difflet/cli/command.h"
#include "difflet/cli/progress.h"
#include "difflet/cli/store_entries.h"
#include "difflet/cli/targets.h"

namespace difflet::cli {
namespace {

using artifact::EntryKind;
using artifact::Identity;
using artifact::StoreEntry;

std::string metadata(const artifact::Manifest& manifest, const std::string& name) {
  const auto found = manifest.metadata.find(name);
  return found == manifest.metadata.end() ? "" : found->second;
}

std::string shapes_text(const Identity& identity) {
  std::vector<std::string> all;
  all.reserve(identity.shapes.size());
  for (const artifact::ShapeEntry& shape : identity.shapes) {
    std::vector<std::string> inputs;
    inputs.reserve(shape.inputs.size());
    for (const auto& [name, dims] : shape.inputs) {
      inputs.push_back(fmt::format("{}[{}]", name, fmt::join(dims, ",")));
    }
    all.push_back(fmt::format("{}", fmt::join(inputs, " ")));
  }
  return fmt::format("{}", fmt::join(all, "; "));
}

// "bf16", "bf16 w8a8".
std::string arithmetic_text(const Identity& identity) {
  const auto quant = identity.options.find("quant");
  const auto* text =
      quant == identity.options.end() ? nullptr : std::get_if<std::string>(&quant->second);
  return fmt::format("{}{}{}", dtype_name(identity.dtype), text == nullptr ? "" : " ",
                     text == nullptr ? "" : *text);
}

Json entry_json(const StoreEntry& entry) {
  Json row{{"key", entry.key},
           {"kind", entry.kind == EntryKind::Artifact ? "artifact" : "weights"},
           {"generation", entry.generation},
           {"bytes", entry.bytes},
           {"latest", entry.latest},
           {"in_use", entry.in_use},
           {"problem", entry.problem}};
  if (entry.manifest) {
    row["component"] = metadata(*entry.manifest, "component");
    row["model"] = metadata(*entry.manifest, "model");
    row["class"] = entry.manifest->identity.model;
    row["dtype"] = dtype_name(entry.manifest->identity.dtype);
    if (const auto quant = entry.manifest->identity.options.find("quant");
        quant != entry.manifest->identity.options.end()) {
      std::visit([&](const auto& value) { row["quant"] = value; }, quant->second);
    }
    row["backend"] = entry.manifest->identity.backend;
    row["created"] = metadata(*entry.manifest, "created");
    row["weights"] = entry.manifest->weights.key;
    row["shapes"] = Json::array();
    for (const artifact::ShapeEntry& shape : entry.manifest->identity.shapes) {
      row["shapes"].push_back(shape.inputs);
    }
  }
  return row;
}

std::string entry_text(const StoreEntry& entry) {
  std::string line =
      fmt::format("{} {} {:>10}  ", entry.key, entry.generation, readable_bytes(entry.bytes));
  if (entry.manifest) {
    const Identity& identity = entry.manifest->identity;
    line += fmt::format("{} of {}, {} {}, {}", metadata(*entry.manifest, "component"),
                        metadata(*entry.manifest, "model"), arithmetic_text(identity),
                        identity.backend, shapes_text(identity));
  } else if (entry.weights) {
    line += fmt::format("weights of {}, {} {}, {} rank{}", entry.weights->base.model,
                        arithmetic_text(entry.weights->base), entry.weights->base.backend,
                        entry.weights->files.size(), entry.weights->files.size() == 1 ? "" : "s");
  }
  line += entry.latest || !entry.problem.empty() ? "" : " (superseded)";
  line += entry.in_use ? " (in use)" : "";
  return line + (entry.problem.empty() ? "" : fmt::format(" DAMAGED: {}", entry.problem)) + "\n";
}

void print_entry(const OptionValues& options, const StoreEntry& entry) {
  if (options.flag("json")) {
    print_event(entry_json(entry));
  } else {
    print(entry_text(entry));
  }
}

void print_fields(const OptionValues& options, const std::string& name, const Identity& identity) {
  const std::string key = artifact::key_of(identity);
  if (options.flag("json")) {
    print_event({{"component", name}, {"key", key}, {"identity", artifact::to_json(identity)}});
    return;
  }
  print(fmt::format("{} {}\n", key, name));
  for (const auto& [path, value] : artifact::fields(identity)) {
    print(fmt::format("  {} = {}\n", path, value));
  }
}

void print_differences(const OptionValues& options, const artifact::Manifest& a,
                       const artifact::Manifest& b) {
  const auto differences = artifact::differences(a.identity, b.identity);
  if (options.flag("json")) {
    Json rows = Json::array();
    for (const artifact::FieldDifference& d : differences) {
      rows.push_back({{"path", d.path}, {"a", d.a}, {"b", d.b}});
    }
    print_event({{"key", a.key}, {"other", b.key}, {"differences", rows}});
    return;
  }
  for (const artifact::FieldDifference& d : differences) {
    print(fmt::format("{}: {} | {}\n", d.path, d.a.empty() ? "(absent)" : d.a,
                      d.b.empty() ? "(absent)" : d.b));
  }
}

Json shapes_json(const std::vector<artifact::ShapeEntry>& shapes) {
  Json all = Json::array();
  for (const artifact::ShapeEntry& shape : shapes) {
    all.push_back(shape.inputs);
  }
  return all;
}

}  // namespace

void run_cache_ls(const OptionValues& options) {
  for (const StoreEntry& entry : artifact::Store(cache_dir(options)).list()) {
    print_entry(options, entry);
  }
}

void run_cache_verify(const OptionValues& options) {
  ThreadPool threads(static_cast<int>(options.integer("threads")));
  const artifact::Store store(cache_dir(options));
  const std::vector<std::string> wanted = keys_of(store, options.texts("key"));
  std::size_t damaged = 0;
  for (const StoreEntry& entry : store.verify(threads)) {
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), entry.key) != wanted.end()) {
      print_entry(options, entry);
      damaged += entry.problem.empty() ? 0 : 1;
    }
  }
  check(damaged == 0, ErrorCode::DataLoss, "{}: {} damaged; 'difflet cache rm KEY' deletes what is",
        store.root().string(),
        damaged == 1 ? "1 entry is" : fmt::format("{} entries are", damaged));
}

void run_cache_lookup(const OptionValues& options) {
  Log log(log_level(options));
  ThreadPool threads(static_cast<int>(options.integer("threads")));
  Context context{.log = log, .threads = threads};
  const Targets targets(options, context);
  const artifact::Store store(cache_dir(options));
  for (const Target& target : targets.all()) {
    const Identity identity = compile::identity_of(*target.folder, target.shapes,
                                                   build_options(options), store.root(), context);
    const artifact::Lookup found = store.find(identity);
    const bool weights =
        found.artifact && found.artifact->weight_state() == artifact::WeightState::Present;
    const std::string reason = !found.artifact ? found.reason
                               : weights       ? ""
                                               : found.artifact->weight_reason();
    if (options.flag("json")) {
      print_event({{"component", target.name},
                   {"key", found.artifact ? found.artifact->key() : artifact::key_of(identity)},
                   {"hit", found.artifact.has_value()},
                   {"weights", weights},
                   {"reason", reason},
                   {"other_shapes", shapes_json(found.others)}});
    } else if (found.artifact) {
      print(fmt::format("{:<16} hit  {} {}{}\n", target.name, found.artifact->key(),
                        found.artifact->generation(),
                        weights ? "" : ", weights packed from the checkpoint: " + reason));
    } else {
      print(fmt::format("{:<16} miss {}: {}\n", target.name, artifact::key_of(identity), reason));
    }
  }
}

void run_cache_explain_key(const OptionValues& options) {
  const artifact::Store store(cache_dir(options));
  if (options.given("diff")) {
    const auto keys = keys_of(store, options.texts("diff"));
    print_differences(options, manifest_of(store, keys[0]), manifest_of(store, keys[1]));
    return;
  }
  if (options.given("key")) {
    for (const std::string& key : keys_of(store, options.texts("key"))) {
      const artifact::Manifest manifest = manifest_of(store, key);
      print_fields(options, metadata(manifest, "component"), manifest.identity);
    }
    return;
  }
  check(options.given("model"), ErrorCode::InvalidArgument,
        "cache explain-key needs a KEY, --diff with two of them, or --model");
  Log log(log_level(options));
  ThreadPool threads(static_cast<int>(options.integer("threads")));
  Context context{.log = log, .threads = threads};
  const Targets targets(options, context);
  for (const Target& target : targets.all()) {
    print_fields(options, target.name,
                 compile::identity_of(*target.folder, target.shapes, build_options(options),
                                      store.root(), context));
  }
}

}  // namespace difflet::cli
