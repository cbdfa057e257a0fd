// A batch axis computes what one run a value does: every case of every op, with the axis on each operand
// alone and on all of them.
#include "difflet/graph/passes/batch_axis.h"

#include <algorithm>
#include <set>

#include "tests/conformance/cases.h"
#include <gtest/gtest.h>

#include "difflet/backends/reference/reference.h"
#include "difflet/tensor/compare.h"

namespace difflet::conformance {
namespace {

constexpr std::int64_t kExtent = 3;

// Other values of the same range: the elements turned by a prime number of places.
HostTensor turned(const HostTensor& tensor, std::int64_t times) {
  HostTensor out(tensor.dtype(), tensor.shape());
  const auto to = out.mutable_bytes();
  const auto step = static_cast<std::size_t>(7 * times) * dtype_bytes(tensor.dtype());
  std::ranges::rotate_copy(tensor.bytes(), tensor.bytes().begin() + step % to.size(), to.begin());
  return out;
}

HostTensor stack(const HostTensor& tensor) {
  std::vector<std::int64_t> dims{kExtent};
  dims.insert(dims.end(), tensor.shape().dims().begin(), tensor.shape().dims().end());
  HostTensor out(tensor.dtype(), Shape(std::span<const std::int64_t>(dims)));
  std::byte* to = out.mutable_bytes().data();
  for (std::int64_t i = 0; i < kExtent; ++i) {
    to = std::ranges::copy(turned(tensor, i).bytes(), to).out;
  }
  return out;
}

// The inputs of `g` whose bit is set in `mask` get the axis. Returns whether there is a rule.
bool check(const Case& c, const graph::Graph& g, std::size_t mask) {
  const std::vector<graph::NodeId> ids = g.inputs();
  const graph::NodeId result = g.outputs()[0].node;
  std::vector<std::string> names;
  std::vector<bool> batched(g.node(result).inputs.size(), false);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if ((mask >> i & 1U) != 0) {
      names.push_back(std::get<graph::Input>(g.node(ids[i]).op).name);
      for (std::size_t j = 0; j < batched.size(); ++j) {
        batched[j] = batched[j] || g.node(result).inputs[j] == ids[i];
      }
    }
  }
  if (graph::passes::cannot_batch(g, result, batched)) {
    return false;
  }
  const graph::Graph wide = graph::passes::batch_axis(g, kExtent, names);
  EXPECT_NO_THROW(graph::verify(wide));
  const std::vector<HostTensor> all = values(c, DType::F32);
  const CaseWeights weights(all);
  const std::vector<HostTensor> one = inputs(c, all, DType::F32);
  std::vector<HostTensor> stacked = one;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    stacked[i] = (mask >> i & 1U) != 0 ? stack(one[i]) : one[i];
  }
  const HostTensor together = reference::run_ranks(wide, weights, stacked)[0][0];
  for (std::int64_t t = 0; t < kExtent; ++t) {
    std::vector<HostTensor> apart = one;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      apart[i] = (mask >> i & 1U) != 0 ? turned(one[i], t) : one[i];
    }
    const HostTensor expected = reference::run_ranks(g, weights, apart)[0][0];
    const HostTensor actual = together.narrow(0, t, 1).reshaped(expected.shape());
    EXPECT_EQ(compare(actual, expected).max_abs, 0) << "value " << t << "\n" << print(wide);
  }
  return true;
}

TEST(BatchAxis, IsOneRunAValueForEveryCase) {
  std::set<std::string_view> with_rule;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const graph::Graph g = build(c, DType::F32);
    const std::size_t operands = g.inputs().size();
    const std::size_t whole = (std::size_t{1} << operands) - 1;
    std::set<std::size_t> masks{whole};
    for (std::size_t i = 0; i < operands; ++i) {
      masks.insert({std::size_t{1} << i, whole ^ (std::size_t{1} << i)});
    }
    masks.erase(0);
    for (const std::size_t mask : masks) {
      if (check(c, g, mask)) {
        with_rule.insert(graph::op_name(c.op));
      }
    }
  }
  // Every op but the leaves without operands.
  EXPECT_EQ(with_rule.size(), std::variant_size_v<graph::Op> - 4);
}

}  // namespace
}  // namespace difflet::conformance
