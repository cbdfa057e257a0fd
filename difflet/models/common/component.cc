#include "difflet/models/common/component.h"

#include <algorithm>

#include "difflet/base/error.h"

namespace difflet::models {

const Shape& input_shape(const ShapeMap& inputs, std::string_view name, std::size_t rank) {
  const auto it = inputs.find(std::string(name));
  check(it != inputs.end(), ErrorCode::InvalidArgument, "input '{}' is missing", name);
  check(it->second.rank() == rank, ErrorCode::InvalidArgument,
        "input '{}' must have {} axes, got {}", name, rank, it->second.str());
  check(it->second.elements() > 0, ErrorCode::InvalidArgument, "input '{}' is empty: {}", name,
        it->second.str());
  return it->second;
}

void check_input_names(const ShapeMap& inputs, std::initializer_list<std::string_view> known) {
  for (const auto& [name, shape] : inputs) {
    check(std::find(known.begin(), known.end(), name) != known.end(), ErrorCode::InvalidArgument,
          "unknown input '{}'; this component takes {}", name, fmt::join(known, ", "));
  }
}

void check_extent(std::string_view input, const Shape& shape, std::size_t axis,
                  std::int64_t expected, std::string_view why) {
  check(shape[axis] == expected, ErrorCode::InvalidArgument,
        "input '{}' {}: axis {} must be {} ({})", input, shape.str(), axis, expected, why);
}

}  // namespace difflet::models
