#include "difflet/artifact/difference.h"

#include <algorithm>
#include <vector>

#include "difflet/base/error.h"

namespace difflet::artifact {

std::string describe_difference(const std::string& key, const Identity& stored,
                                const Identity& wanted) {
  constexpr std::size_t kShown = 3;
  const std::vector<FieldDifference> all = differences(base_of(stored), base_of(wanted));
  std::string text = fmt::format("of {} there is {}, which differs in ", stored.model, key);
  for (std::size_t i = 0; i < std::min(all.size(), kShown); ++i) {
    text += fmt::format("{}{} ({}, not {})", i == 0 ? "" : ", ", all[i].path,
                        all[i].a.empty() ? "none" : all[i].a, all[i].b.empty() ? "none" : all[i].b);
  }
  return all.size() > kShown ? text + fmt::format(" and {} more fields", all.size() - kShown)
                             : text;
}

}  // namespace difflet::artifact
