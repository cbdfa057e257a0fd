// Random programs of views, concatenations, products and norms: whatever the planner writes in
// place, shares or copies, the result is the reference's.
#include <random>

#include <gtest/gtest.h>

#include "difflet/backends/cpu/backend.h"
#include "difflet/backends/cpu/kernels/level.h"
#include "difflet/backends/reference/reference.h"
#include "difflet/base/context.h"
#include "difflet/graph/builder.h"
#include "difflet/tensor/compare.h"

namespace difflet::cpu {
namespace {

using graph::Builder;
using graph::NodeId;

constexpr std::int64_t kBatch = 2, kWidth = 8;

// Values [kBatch, tokens, kWidth] of various numbers of tokens.
class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed), graph_("random"), build_(graph_) {
    values_.push_back(graph_.add(graph::Input{"x", DType::F32, Shape{kBatch, 3, kWidth}}, {}));
    values_.push_back(graph_.add(graph::Input{"t", DType::F32, Shape{kBatch, 2, kWidth}}, {}));
    values_.push_back(param(Shape{kBatch, 1, kWidth}));
    for (int i = 0; i < 20; ++i) {
      values_.push_back(step());
    }
    for (int i = 0; i < 3; ++i) {
      graph_.add_output(fmt::format("y{}", i), i == 0 ? values_.back() : any());
    }
  }
  const graph::Graph& graph() const { return graph_; }

 private:
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint32_t>(n));
  }
  NodeId any() {
    const auto last = static_cast<std::int64_t>(values_.size());
    return values_[static_cast<std::size_t>(
        below(2) == 0 ? last - 1 - below(std::min<std::int64_t>(3, last)) : below(last))];
  }
  std::int64_t tokens(NodeId x) const { return build_.shape(x)[1]; }
  NodeId param(const Shape& shape) {
    return graph_.add_param({fmt::format("w{}", next_++), {}, DType::F32, shape, {}});
  }
  NodeId linear(NodeId x, std::int64_t width = kWidth) {
    return graph_.add(graph::Linear{}, {x, param(Shape{width, build_.shape(x).dim(-1)})});
  }

  NodeId join_tokens() {
    std::vector<NodeId> parts{any(), below(3) == 0 ? any() : linear(any())};
    if (below(3) == 0) {
      parts.push_back(parts[0]);
    }
    return build_.concat(parts, 1);
  }
  NodeId join_channels() {
    const NodeId x = any();
    const NodeId wide =
        build_.concat({linear(x), below(2) == 0 ? x : graph_.add(graph::Activate{}, {x})}, 2);
    return below(2) == 0 ? linear(wide) : build_.slice(wide, 2, kWidth / 2, kWidth / 2 + kWidth);
  }
  NodeId cut() {
    const NodeId x = any();
    const std::int64_t first = below(tokens(x));
    return build_.slice(x, 1, first, first + 1 + below(tokens(x) - first));
  }
  NodeId heads() {
    const NodeId x = any();
    const Shape shape{kBatch, tokens(x), 2, kWidth / 2};
    const NodeId qkv = linear(x, 3 * kWidth);
    std::vector<NodeId> parts;
    for (std::int64_t i = 0; i < 3; ++i) {
      parts.push_back(build_.reshape(build_.slice(qkv, 2, i * kWidth, (i + 1) * kWidth), shape));
    }
    const NodeId y = graph_.add(graph::Attention{.scale = 0.5}, parts);
    return build_.reshape(y, Shape{kBatch, tokens(x), kWidth});
  }
  // Tokens and channels change places and come back through another shape.
  NodeId turned() {
    const NodeId x = any();
    const NodeId t = build_.transpose(x, {0, 2, 1});
    const NodeId y = below(2) == 0 ? graph_.add(graph::Activate{}, {t}) : t;
    return below(2) == 0 ? build_.transpose(y, {0, 2, 1})
                         : build_.reshape(y, Shape{kBatch, tokens(x), kWidth});
  }
  NodeId sum() {
    const NodeId x = any();
    const NodeId gate = build_.slice(any(), 1, 0, 1);
    return build_.add(x, build_.mul(gate, linear(x)));
  }

  NodeId step() {
    switch (below(8)) {
      case 0:
        return linear(any());
      case 1:
        return join_tokens();
      case 2:
        return join_channels();
      case 3:
        return cut();
      case 4:
        return heads();
      case 5:
        return turned();
      case 6:
        return sum();
      default:
        return graph_.add(graph::LayerNorm{}, {any()});
    }
  }

  std::mt19937 random_;
  graph::Graph graph_;
  Builder build_;
  std::vector<NodeId> values_;
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

class NoiseWeights final : public runtime::WeightSource {
 public:
  HostTensor whole(const graph::ParamDecl& param) const override {
    return noise(param.shape, static_cast<unsigned>(std::hash<std::string>()(param.name)));
  }
};

TEST(RandomPrograms, EqualTheReferenceAtEveryLevel) {
  Log log(LogLevel::Error);
  ThreadPool threads(2);
  Context context{log, threads};
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const graph::Graph g = RandomProgram(seed).graph();
    std::vector<HostTensor> inputs;
    for (const NodeId id : g.inputs()) {
      inputs.push_back(noise(g.node(id).type.shape, id + 1));
    }
    const auto expected = reference::run_ranks(g, NoiseWeights(), inputs)[0];
    for (int level = 0; level <= static_cast<int>(detect_level()); ++level) {
      const std::string name(level_name(static_cast<Level>(level)));
      const auto executable =
          CpuBackend().load(g, NoiseWeights(), context, {.cpu_level = name, .memory_limit = 0});
      (void)executable->run(inputs);  // a second run finds what the first left in the arena
      const auto got = executable->run(inputs);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const Difference d = compare(got[i], expected[i]);
        ASSERT_LE(d.relative, 1e-5) << name << ", output " << i << ": " << d.str() << "\n"
                                    << print(g);
      }
    }
  }
}

}  // namespace
}  // namespace difflet::cpu
