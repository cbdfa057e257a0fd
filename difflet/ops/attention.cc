#include <cmath>

#include "difflet/base/error.h"
#include "difflet/ops/context.h"
#include "difflet/ops/tensor.h"

namespace difflet::ops {

Tensor attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options) {
  const bool bounds = options.key_min.graph != nullptr;
  require(bounds == (options.key_max.graph != nullptr), "attention: key_min without key_max");
  const graph::Attention op{
      .scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(q.dim(-1))),
      .causal = options.causal,
      .bias = options.bias.graph != nullptr,
      .bounds = bounds};
  std::vector<Tensor> operands{q, k, v};
  if (op.bias) {
    operands.push_back(options.bias);
  }
  if (op.bounds) {
    operands.insert(operands.end(), {options.key_min, options.key_max});
  }
  return add_node(op, operands);
}

Tensor rope(Tensor x, const RopeTable& table) {
  return add_node(graph::Rope{.pairs = table.pairs}, {x, table.cos, table.sin});
}

}  // namespace difflet::ops
