#include "difflet/cli/store_entries.h"

#include <set>

#include "difflet/base/error.h"

namespace difflet::cli {

std::vector<std::string> keys_of(const artifact::Store& store,
                                 const std::vector<std::string>& given) {
  if (given.empty()) {
    return {};
  }
  std::set<std::string> all;
  for (const artifact::StoreEntry& entry : store.list()) {
    all.insert(entry.key);
  }
  std::vector<std::string> keys;
  for (const std::string& begin : given) {
    check(!begin.empty() && begin.size() <= 16 &&
              begin.find_first_not_of("0123456789abcdef") == std::string::npos,
          ErrorCode::InvalidArgument, "'{}' is not the beginning of a key, 16 hex digits", begin);
    std::vector<std::string> like;
    for (auto at = all.lower_bound(begin); at != all.end() && at->starts_with(begin); ++at) {
      like.push_back(*at);
    }
    check(!like.empty(), ErrorCode::NotFound, "{} holds no key '{}'", store.root().string(), begin);
    check(like.size() == 1, ErrorCode::InvalidArgument, "'{}' is the beginning of {}", begin,
          fmt::join(like, " and "));
    keys.push_back(like.front());
  }
  return keys;
}

artifact::Manifest manifest_of(const artifact::Store& store, const std::string& key) {
  std::string problem;
  std::optional<artifact::Manifest> newest;
  for (const artifact::StoreEntry& entry : store.list()) {
    if (entry.key == key && entry.kind == artifact::EntryKind::Artifact) {
      if (entry.manifest) {
        newest = entry.manifest;
      } else {
        problem = entry.problem;
      }
    }
  }
  check(newest || !problem.empty(), ErrorCode::NotFound, "{}: '{}' is no artifact",
        store.root().string(), key);
  check(newest.has_value(), ErrorCode::DataLoss, "artifact {}: {}", key, problem);
  return *newest;
}

}  // namespace difflet::cli
