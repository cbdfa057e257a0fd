// A configured model component that can be traced: what every model folder provides and what the
// rest of the engine knows of it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/graph/graph.h"

namespace difflet::models {

using ShapeMap = std::map<std::string, Shape>;

// Layers that may have int8 weights: those whose weight's name matches `pattern` (* is any run of
// characters), counted as `group`.
struct QuantRule {
  std::string_view pattern, group;
  // Only where a request names the group or the weight itself, and then w8a16: the layers are many bytes,
  // little work, and act on every token.
  bool only_named = false;
};

class Component {
 public:
  virtual ~Component() = default;

  // Traces the forward pass for inputs of these shapes, named as the original module's forward
  // arguments; dtypes follow from `dtype` (ids are i32). Throws InvalidArgument for a missing,
  // unknown or misshapen input.
  virtual graph::Graph trace(const ShapeMap& inputs, DType dtype, const spmd::Mesh& mesh) const = 0;

  // Whether the result is a picture, whose rows can be computed a band at a time.
  virtual bool makes_picture() const { return false; }

  // True for checkpoint tensors that this component knows and does not need ("encoder.*" of a
  // decoder).
  virtual bool ignores(std::string_view tensor) const { return tensor.empty(); }

  // The first rule that matches counts; a layer that none names keeps its weight as it is.
  virtual std::vector<QuantRule> quant_rules() const { return {}; }
};

// Helpers for trace(): the shape of a named input, checked for rank; and a check for leftovers.
const Shape& input_shape(const ShapeMap& inputs, std::string_view name, std::size_t rank);
void check_input_names(const ShapeMap& inputs, std::initializer_list<std::string_view> known);
// Throws InvalidArgument unless the extent of `axis` is `expected`; `why` names the config field.
void check_extent(std::string_view input, const Shape& shape, std::size_t axis,
                  std::int64_t expected, std::string_view why);

}  // namespace difflet::models
