// A pass never changes what a graph computes: random graphs, evaluated before and after.

#include <random>

#include <gtest/gtest.h>

#include "difflet/backends/reference/reference.h"
#include "difflet/base/error.h"
#include "difflet/graph/builder.h"
#include "difflet/graph/passes/passes.h"
#include "difflet/tensor/compare.h"

namespace difflet::graph {
namespace {

constexpr std::int64_t kWidth = 8;

// Grows a graph over values [2, 3, kWidth]; most steps are what the passes look for.
class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed), graph_("random"), build_(graph_) {
    values_.push_back(graph_.add(Input{"x", DType::F32, Shape{2, 3, kWidth}}, {}));
    values_.push_back(graph_.add(Input{"r", DType::F32, Shape{2, 3, kWidth}}, {}));
    rows_.push_back(graph_.add(Input{"gate", DType::F32, Shape{2, 1, kWidth}}, {}));
    rows_.push_back(param("row", Shape{kWidth}));
    for (int i = 0; i < 24; ++i) {
      step();
    }
    graph_.add_output("y", values_.back());
    graph_.add_output("z", any(values_));
  }

  const Graph& graph() const { return graph_; }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  // Recent values more often, so that chains grow.
  NodeId any(const std::vector<NodeId>& from) {
    return below(2) == 0 ? from.back() : from[below(from.size())];
  }
  NodeId value() { return any(values_); }
  NodeId row() { return rows_[below(rows_.size())]; }
  NodeId param(const std::string& name, const Shape& shape) {
    return graph_.add_param({name, {}, DType::F32, shape, {}});
  }
  std::string fresh(std::string_view stem) { return fmt::format("{}{}", stem, next_++); }
  // The operands in either order.
  NodeId either(BinaryKind kind, NodeId a, NodeId b) {
    return below(2) == 0 ? build_.binary(kind, a, b) : build_.binary(kind, b, a);
  }

  NodeId linear() {
    const NodeId weight = param(fresh("w"), Shape{kWidth, kWidth});
    return graph_.add(Linear{}, {value(), weight});
  }
  NodeId modulation() {
    const NodeId norm = graph_.add(LayerNorm{}, {value()});
    const NodeId scale = either(BinaryKind::Add, build_.f32(1), row());
    return either(BinaryKind::Add, either(BinaryKind::Mul, norm, scale), row());
  }
  NodeId there_and_back() {
    const NodeId flat = build_.reshape(value(), Shape{6, kWidth});
    const NodeId turned = build_.transpose(build_.transpose(flat, {1, 0}), {1, 0});
    return build_.reshape(turned, Shape{2, 3, kWidth});
  }
  NodeId rope() {
    const NodeId heads = build_.reshape(value(), Shape{2, 3, 2, kWidth / 2});
    const NodeId norm = graph_.add(RmsNorm{}, {heads, param(fresh("g"), Shape{kWidth / 2})});
    const NodeId table = param(fresh("t"), Shape{3, kWidth / 4});
    const NodeId turned = graph_.add(Rope{}, {below(4) == 0 ? heads : norm, table, table});
    return build_.reshape(turned, Shape{2, 3, kWidth});
  }
  NodeId group_norm() {
    const NodeId w = param(fresh("gw"), Shape{kWidth});
    return graph_.add(GroupNorm{.groups = 2}, {value(), w, row_of_width()});
  }
  NodeId row_of_width() { return rows_[1]; }

  void step() {
    switch (below(12)) {
      case 0:
      case 1:
        values_.push_back(linear());
        break;
      case 2:
        values_.push_back(graph_.add(Activate{Activation::GeluTanh}, {value()}));
        break;
      case 3:
        values_.push_back(either(BinaryKind::Mul, value(), row()));
        break;
      case 4:
      case 5:
        values_.push_back(either(BinaryKind::Add, value(), value()));
        break;
      case 6:
        values_.push_back(modulation());
        break;
      case 7:
        values_.push_back(there_and_back());
        break;
      case 8:
        values_.push_back(rope());
        break;
      case 9:
        values_.push_back(group_norm());
        break;
      case 10:
        values_.push_back(build_.mul(value(), build_.f32(below(2) == 0 ? 1 : 0.5)));
        break;
      case 11:
        values_.push_back(either(BinaryKind::Add, value(), row_of_width()));
        break;
    }
  }

  std::mt19937 random_;
  Graph graph_;
  Builder build_;
  std::vector<NodeId> values_;
  std::vector<NodeId> rows_;
  int next_ = 0;
};

HostTensor noise(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  for (float& v : values) {
    v = static_cast<float>(random() % 2001) / 2000.0F - 0.5F;
  }
  return HostTensor::from(shape, std::span<const float>(values));
}

// The same values for a name, whichever parameters a pass has left.
class NoiseWeights final : public runtime::WeightSource {
 public:
  HostTensor whole(const ParamDecl& param) const override {
    unsigned seed = 7;
    for (const char c : param.name) {
      seed = seed * 31 + static_cast<unsigned char>(c);
    }
    return noise(param.shape, seed);
  }
};

std::vector<HostTensor> evaluate(const Graph& graph) {
  std::vector<HostTensor> inputs;
  for (const NodeId id : graph.inputs()) {
    inputs.push_back(noise(graph.node(id).type.shape, id + 1));
  }
  return reference::run_ranks(graph, NoiseWeights(), inputs)[0];
}

void expect_equal_results(const Graph& before, const Graph& after) {
  EXPECT_NO_THROW(verify(after));
  EXPECT_EQ(print(parse(print(after))), print(after));
  const auto a = evaluate(before);
  const auto b = evaluate(after);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Difference difference = compare(b[i], a[i]);
    EXPECT_LE(difference.relative, 1e-5) << difference.str() << "\n" << print(before);
  }
}

class PassProperty : public ::testing::TestWithParam<Graph (*)(const Graph&)> {};

Graph all_passes(const Graph& graph) {
  return passes::fuse_linear(passes::fuse_norm(passes::merge_common(passes::simplify(graph))));
}

TEST_P(PassProperty, KeepsWhatTheGraphComputes) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Graph before = RandomGraph(seed).graph();
    expect_equal_results(before, GetParam()(before));
  }
}

TEST_P(PassProperty, SavesNodesSomewhereAndAddsNone) {
  std::size_t saved = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    const Graph before = RandomGraph(seed).graph();
    const std::size_t after = GetParam()(before).nodes().size();
    ASSERT_LE(after, before.nodes().size()) << seed;
    saved += before.nodes().size() - after;
  }
  EXPECT_GT(saved, 0U);
}

INSTANTIATE_TEST_SUITE_P(Passes, PassProperty,
                         ::testing::Values(&passes::eliminate_dead, &passes::merge_common,
                                           &passes::simplify, &passes::fuse_linear,
                                           &passes::fuse_norm, &all_passes));

}  // namespace
}  // namespace difflet::graph
