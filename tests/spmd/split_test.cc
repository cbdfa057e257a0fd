// A split denoiser (request, schedule and step programs), and a graph cut into its blocks, compute what
// the whole does, on every rank.
#include <array>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "difflet/backends/reference/reference.h"
#include "difflet/base/error.h"
#include "difflet/graph/builder.h"
#include "difflet/graph/passes/extract.h"
#include "difflet/graph/passes/passes.h"
#include "difflet/graph/passes/split_bindings.h"
#include "difflet/models/flux/transformer.h"
#include "difflet/tensor/compare.h"

namespace difflet {
namespace {

using graph::Binding;
using graph::Graph;
using graph::NodeId;
using graph::passes::split_bindings;
using graph::passes::SplitGraph;
using Values = std::map<std::string, HostTensor>;  // by the name of an input or output
using RankValues = std::vector<Values>;            // by rank

constexpr std::int64_t kSteps = 5;

std::uint32_t seed_of(std::string_view text) {
  std::uint32_t seed = 7;
  for (const char c : text) {
    seed = seed * 31 + static_cast<unsigned char>(c);
  }
  return seed;
}

HostTensor noise(const Shape& shape, std::uint32_t seed) {
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
    return noise(param.shape, seed_of(param.name));
  }
};

// What the joined graph reads in step t: only what its binding lets change does.
Values inputs_of_step(const Graph& g, std::int64_t t) {
  Values values;
  for (const NodeId id : g.inputs()) {
    const auto& input = std::get<graph::Input>(g.node(id).op);
    const auto fresh = static_cast<std::uint32_t>(input.binding == Binding::Request ? 0 : t);
    values[input.name] = noise(input.shape, seed_of(input.name) + fresh);
  }
  return values;
}

RankValues run(const Graph& g, const RankValues& values) {
  std::vector<std::vector<HostTensor>> inputs(values.size());
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    for (const NodeId id : g.inputs()) {
      inputs[rank].push_back(values[rank].at(std::get<graph::Input>(g.node(id).op).name));
    }
  }
  RankValues outputs(values.size());
  const auto results = reference::run_ranks(g, NoiseWeights(), inputs);
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    for (std::size_t i = 0; i < g.outputs().size(); ++i) {
      outputs[rank][g.outputs()[i].name] = results[rank][i];
    }
  }
  return outputs;
}

// Tensors of one type, one after the other: [N, ...].
HostTensor stack(const std::vector<HostTensor>& parts) {
  std::vector<std::int64_t> dims{static_cast<std::int64_t>(parts.size())};
  const auto rest = parts[0].shape().dims();
  dims.insert(dims.end(), rest.begin(), rest.end());
  HostTensor out(parts[0].dtype(), Shape(std::span<const std::int64_t>(dims)));
  std::byte* to = out.mutable_bytes().data();
  for (const HostTensor& part : parts) {
    to = std::copy(part.bytes().begin(), part.bytes().end(), to);
  }
  return out;
}

HostTensor slice(const HostTensor& stacked, std::int64_t i) {
  const HostTensor one = stacked.narrow(0, i, 1);
  return one.reshaped(Shape(one.shape().dims().subspan(1)));
}

// Runs a split graph the way that a pipeline does.
class SplitRun {
 public:
  SplitRun(const Graph& joined, SplitGraph split)
      : joined_(joined), split_(std::move(split)), ranks_(ranks()) {
    if (split_.request) {
      const Values values = inputs_of_step(joined_, 0);
      request_ = run(*split_.request, RankValues(ranks_, values));
    }
  }

  RankValues step(std::int64_t t) {
    if (split_.schedule && t % split_.capacity == 0) {
      run_schedule(t);
    }
    RankValues values(ranks_, inputs_of_step(joined_, t));
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (split_.request) {
        values[rank].insert(request_[rank].begin(), request_[rank].end());
      }
      if (split_.schedule) {
        for (const auto& [name, value] : schedule_[rank]) {
          values[rank][name] = slice(value, t % split_.capacity);
        }
      }
    }
    return run(split_.step, values);
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(joined_.mesh().ranks()); }

  // The chunk that begins at step t; the last one is filled up with its last step.
  void run_schedule(std::int64_t t) {
    std::map<std::string, std::vector<HostTensor>> by_step;
    for (std::int64_t i = 0; i < split_.capacity; ++i) {
      for (const auto& [name, value] : inputs_of_step(joined_, std::min(t + i, kSteps - 1))) {
        by_step[name].push_back(value);
      }
    }
    Values stacked = inputs_of_step(joined_, t);
    for (const NodeId id : split_.schedule->inputs()) {
      const auto& input = std::get<graph::Input>(split_.schedule->node(id).op);
      if (input.binding == Binding::Schedule) {
        stacked[input.name] = stack(by_step.at(input.name));
      }
    }
    RankValues values(ranks_, stacked);
    for (std::size_t rank = 0; rank < ranks_ && split_.request; ++rank) {
      values[rank].insert(request_[rank].begin(), request_[rank].end());
    }
    schedule_ = run(*split_.schedule, values);
  }

  const Graph& joined_;
  SplitGraph split_;
  std::size_t ranks_;
  RankValues request_, schedule_;
};

void expect_sound(const Graph& g) {
  EXPECT_NO_THROW(graph::verify(g));
  const std::string text = graph::print(g);
  EXPECT_EQ(graph::print(graph::parse(text)), text);
  EXPECT_EQ(graph::print(graph::passes::merge_common(g)), text) << "duplicates or dead nodes";
}

// Bit for bit: the split regroups no sum.
void expect_same(const Graph& joined, const SplitGraph& split) {
  expect_sound(split.step);
  if (split.request) {
    expect_sound(*split.request);
  }
  if (split.schedule) {
    expect_sound(*split.schedule);
  }
  SplitRun apart(joined, split);
  const auto ranks = static_cast<std::size_t>(joined.mesh().ranks());
  for (std::int64_t t = 0; t < kSteps; ++t) {
    SCOPED_TRACE(t);
    const RankValues expected = run(joined, RankValues(ranks, inputs_of_step(joined, t)));
    const RankValues actual = apart.step(t);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      ASSERT_EQ(actual[rank].size(), expected[rank].size());
      for (const auto& [name, value] : expected[rank]) {
        EXPECT_EQ(compare(actual[rank].at(name), value).max_abs, 0) << name << ", rank " << rank;
      }
    }
  }
}

// The segments in order, values handed on by name.
void expect_same_segments(const Graph& joined) {
  const auto ranks = static_cast<std::size_t>(joined.mesh().ranks());
  RankValues values(ranks, inputs_of_step(joined, 0));
  const RankValues expected = run(joined, values);
  for (const graph::passes::Segment& segment : graph::passes::segments(joined)) {
    EXPECT_NO_THROW(graph::verify(segment.graph)) << segment.name;
    const RankValues outputs = run(segment.graph, values);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      values[rank].insert(outputs[rank].begin(), outputs[rank].end());
    }
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (const auto& [name, value] : expected[rank]) {
      EXPECT_EQ(compare(values[rank].at(name), value).max_abs, 0) << name << ", rank " << rank;
    }
  }
}

// ---- FLUX ----------------------------------------------------------------------------------------

constexpr std::int64_t kText = 20;  // rows: more than the schedule program takes

Graph flux(std::int64_t tp) {
  flux::Config c;
  c.in_channels = c.out_channels = 4;
  c.num_layers = c.num_single_layers = 2;
  c.attention_head_dim = 8;
  c.num_attention_heads = 2;
  c.joint_attention_dim = 6;
  c.pooled_projection_dim = 5;
  c.guidance_embeds = true;
  c.axes_dims_rope = {2, 2, 4};
  const models::ShapeMap shapes{{"hidden_states", Shape{1, 6, 4}},
                                {"encoder_hidden_states", Shape{1, kText, 6}},
                                {"pooled_projections", Shape{1, 5}},
                                {"timestep", Shape{1}},
                                {"img_ids", Shape{6, 3}},
                                {"txt_ids", Shape{kText, 3}},
                                {"guidance", Shape{1}}};
  return flux::Transformer(c).trace(shapes, DType::F32, spmd::Mesh(1, 1, 1, tp));
}

std::vector<std::string> params_of(const Graph& g, std::string_view ending) {
  std::vector<std::string> names;
  for (const graph::ParamDecl& param : g.params()) {
    if (param.name.ends_with(ending)) {
      names.push_back(param.name.substr(0, param.name.size() - ending.size()));
    }
  }
  return names;
}

std::vector<std::string> output_names(const Graph& g) {
  std::vector<std::string> names;
  for (const graph::Output& output : g.outputs()) {
    names.push_back(output.name);
  }
  return names;
}

TEST(SplitFlux, EachProgramHasItsWeights) {
  const SplitGraph split = split_bindings(flux(1));
  ASSERT_TRUE(split.request && split.schedule);
  using Names = std::vector<std::string>;
  EXPECT_EQ(
      params_of(*split.request, ".weight"),
      (Names{"time_text_embed.text_embedder.linear_1", "time_text_embed.text_embedder.linear_2",
             "time_text_embed.guidance_embedder.linear_1",
             "time_text_embed.guidance_embedder.linear_2", "context_embedder"}));
  EXPECT_EQ(
      params_of(*split.schedule, ".weight"),
      (Names{"time_text_embed.timestep_embedder.linear_1",
             "time_text_embed.timestep_embedder.linear_2", "transformer_blocks.0.norm1.linear",
             "transformer_blocks.0.norm1_context.linear", "transformer_blocks.1.norm1.linear",
             "transformer_blocks.1.norm1_context.linear", "single_transformer_blocks.0.norm.linear",
             "single_transformer_blocks.1.norm.linear", "norm_out.linear"}));
  EXPECT_EQ(output_names(*split.request),
            (Names{"request/time_text_embed.guidance_embedder.linear_2.0",
                   "request/time_text_embed.text_embedder.linear_2.0", "request/cos.0",
                   "request/sin.0", "request/context_embedder.0"}));
  EXPECT_EQ(split.schedule->outputs().size(), 7U);
  EXPECT_EQ(
      split.step.params().size() + split.request->params().size() + split.schedule->params().size(),
      flux(1).params().size());
}

class SplitFluxRuns : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(SplitFluxRuns, EqualTheJoinedGraph) {
  const auto [tp, capacity] = GetParam();
  const Graph joined = flux(tp);
  expect_same(joined, split_bindings(joined, {.schedule_capacity = capacity}));
}

TEST(SegmentsFlux, EqualTheWhole) {
  for (const std::int64_t tp : {1, 2}) {
    const Graph joined = flux(tp);
    EXPECT_EQ(graph::passes::blocks(joined).size(), 4U);
    // What comes before the blocks, between the two lists and after them.
    EXPECT_EQ(graph::passes::segments(joined).size(), 7U);
    expect_same_segments(joined);
  }
}

INSTANTIATE_TEST_SUITE_P(RanksAndCapacities, SplitFluxRuns,
                         testing::Values(std::pair(1, 32), std::pair(1, 2), std::pair(2, 2)));

// ---- random graphs -------------------------------------------------------------------------------

constexpr std::int64_t kWidth = 8;

// Grows a graph over values [2, 3, kWidth] of inputs of every binding.
class RandomGraph {
 public:
  RandomGraph(unsigned seed, std::int64_t tp)
      : random_(seed), graph_("random", spmd::Mesh(1, 1, 1, tp)), build_(graph_) {
    for (const Binding binding : {Binding::Request, Binding::Schedule, Binding::Step}) {
      const auto i = static_cast<int>(binding);
      values_.push_back(input(fmt::format("x{}", i), Shape{2, 3, kWidth}, binding));
      rows_.push_back(input(fmt::format("row{}", i), Shape{kWidth}, binding));
      rows_.push_back(input(fmt::format("gate{}", i), Shape{2, 1, kWidth}, binding));
    }
    rows_.push_back(param(Shape{kWidth}));
    for (int i = 0; i < 30; ++i) {
      if (below(6) == 0) {
        graph_.set_scope(below(3) == 0 ? "" : fmt::format("blocks.{}", next_++));
      }
      values_.push_back(step());
    }
    for (int i = 0; i < 3; ++i) {
      graph_.add_output(fmt::format("y{}", i), values_[values_.size() - 1 - below(8)]);
    }
  }

  const Graph& graph() const { return graph_; }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  NodeId input(std::string name, const Shape& shape, Binding binding) {
    return graph_.add(graph::Input{std::move(name), DType::F32, shape, binding}, {});
  }
  NodeId param(const Shape& shape) {
    return graph_.add_param({fmt::format("p{}.weight", next_++), {}, DType::F32, shape, {}});
  }
  // Any of them, so that values of all bindings go on to be read.
  NodeId value() { return values_[below(values_.size())]; }
  NodeId row() { return rows_[below(rows_.size())]; }
  NodeId heads() { return build_.reshape(value(), Shape{2, 3, 2, kWidth / 2}); }
  NodeId flat(NodeId x) { return build_.reshape(x, Shape{2, 3, kWidth}); }

  NodeId modulation() {
    const NodeId norm = graph_.add(graph::LayerNorm{}, {value()});
    return build_.add(build_.mul(norm, build_.add(build_.f32(1), row())), row());
  }
  NodeId rope() {
    const NodeId norm = graph_.add(graph::RmsNorm{}, {heads(), param(Shape{kWidth / 2})});
    const NodeId table = build_.unary(graph::UnaryKind::Sin, param(Shape{3, kWidth / 4}));
    return flat(graph_.add(graph::Rope{}, {norm, table, table}));
  }
  NodeId gathered() {
    // Positive, so that the conversion to i32 counts rows of the table.
    const NodeId one =
        build_.slice(build_.slice(build_.unary(graph::UnaryKind::Abs, value()), 2, 0, 1), 1, 0, 1);
    const NodeId small = build_.binary(graph::BinaryKind::Min, one, build_.f32(3));
    const NodeId index = build_.reshape(build_.convert(small, DType::I32), Shape{2, 1});
    return build_.add(value(), graph_.add(graph::Gather{}, {param(Shape{4, kWidth}), index}));
  }
  NodeId chosen() {
    const NodeId less = build_.compare(graph::CompareKind::Lt, value(), row());
    return build_.select(less, value(), row());
  }
  NodeId over_ranks() {
    const NodeId rank = build_.convert(graph_.add(graph::RankIndex{}, {}), DType::F32);
    return graph_.add(graph::AllReduce{}, {build_.mul(value(), build_.add(rank, build_.f32(0.5)))});
  }

  NodeId step() {
    switch (below(13)) {
      case 0:
      case 1:
        return graph_.add(graph::Linear{.bias = true},
                          {value(), param(Shape{kWidth, kWidth}), param(Shape{kWidth})});
      case 2:
        return graph_.add(graph::Linear{.mul = true, .residual = true},
                          {value(), param(Shape{kWidth, kWidth}), row(), value()});
      case 3:
        return modulation();
      case 4:
        return rope();
      case 5:
        return flat(graph_.add(graph::Attention{.scale = 0.5}, {heads(), heads(), heads()}));
      case 6:
        return graph_.add(graph::GroupNorm{.groups = 2},
                          {value(), param(Shape{kWidth}), param(Shape{kWidth})});
      case 7:
        return gathered();
      case 8:
        return build_.slice(build_.concat({value(), value()}, 1), 1, 2, 5);
      case 9:
        return chosen();
      case 10:
        return over_ranks();
      case 11:
        return build_.sub(value(), build_.reduce(graph::ReduceKind::Mean, value(), {1}));
      default:
        return build_.add(graph_.add(graph::Activate{}, {value()}), value());
    }
  }

  std::mt19937 random_;
  Graph graph_;
  graph::Builder build_;
  std::vector<NodeId> values_;
  std::vector<NodeId> rows_;
  int next_ = 0;
};

class RandomGraphs : public testing::TestWithParam<std::int64_t> {};

TEST_P(RandomGraphs, SplitEqualsJoined) {
  constexpr std::array<std::int64_t, 4> kRows{0, 2, 6, 16};
  std::size_t with_schedule = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const RandomGraph random(seed, GetParam());
    const SplitGraph split = split_bindings(
        random.graph(),
        {.schedule_capacity = 1 + seed % 3, .max_schedule_rows = kRows[seed % kRows.size()]});
    with_schedule += split.schedule ? 1 : 0;
    EXPECT_GE(split.flops_saved, 0);
    expect_same(random.graph(), split);
  }
  EXPECT_GT(with_schedule, 10U);
}

TEST_P(RandomGraphs, SegmentsEqualTheWhole) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    expect_same_segments(RandomGraph(seed, GetParam()).graph());
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, RandomGraphs, testing::Values(1, 2));

}  // namespace
}  // namespace difflet
