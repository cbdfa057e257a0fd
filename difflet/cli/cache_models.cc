// difflet cache models: what the hub's cache holds.
#include <string>
#include <vector>

#include "difflet/base/units.h"
#include "difflet/cli/command.h"
#include "difflet/cli/hub_options.h"
#include "difflet/cli/progress.h"
#include "difflet/io/hub/snapshot.h"

namespace difflet::cli {
namespace {

using io::hub::CachedModel;
using io::hub::CachedRevision;

Json as_json(const CachedModel& model) {
  Json revisions = Json::array();
  for (const CachedRevision& revision : model.revisions) {
    revisions.push_back({{"commit", revision.commit},
                         {"refs", revision.refs},
                         {"files", revision.files},
                         {"bytes", revision.bytes},
                         {"folder", revision.folder.string()}});
  }
  return {{"id", model.id},          {"bytes", model.bytes},
          {"files", model.files},    {"incomplete_bytes", model.incomplete_bytes},
          {"revisions", revisions},  {"folder", model.folder.string()},
          {"problem", model.problem}};
}

std::string as_text(const CachedModel& model) {
  std::vector<std::string> revisions;
  revisions.reserve(model.revisions.size());
  for (const CachedRevision& revision : model.revisions) {
    revisions.push_back(revision.refs.empty()
                            ? revision.commit.substr(0, 12)
                            : fmt::format("{} ({})", revision.commit.substr(0, 12),
                                          fmt::join(revision.refs, ", ")));
  }
  std::string line = fmt::format("{:>10} {:>5} files  {}  {}", readable_bytes(model.bytes),
                                 model.files, model.id, fmt::join(revisions, ", "));
  if (model.incomplete_bytes > 0) {
    line += fmt::format("  {} incomplete", readable_bytes(model.incomplete_bytes));
  }
  return line + (model.problem.empty() ? "" : fmt::format("  DAMAGED: {}", model.problem)) + "\n";
}

}  // namespace

void run_cache_models(const OptionValues& options) {
  for (const CachedModel& model : io::hub::list_models(hub_options())) {
    if (options.flag("json")) {
      print_event(as_json(model));
    } else {
      print(as_text(model));
    }
  }
}

}  // namespace difflet::cli
