#include "difflet/compile/staged.h"

#include "difflet/backends/registry.h"
#include "difflet/base/testing.h"
#include "difflet/graph/graph.h"
#include "difflet/tensor/compare.h"

namespace difflet::compile {
namespace {

// y = x + silu(t . w^T) . v^T * (text . u^T), and the timestep itself.
constexpr const char* kGraph = R"(graph "toy" mesh(dp=1, cfg=1, cp=1, tp=1) {
  %0 = input() {name="x", shape=[1, 3, 4]} : f32[1, 3, 4]
  %1 = input() {name="t", shape=[1, 2], binding=schedule} : f32[1, 2]
  %2 = input() {name="text", shape=[1, 2], binding=request} : f32[1, 2]
  %3 = param "w" f32[5, 2] : f32[5, 2]
  %4 = param "v" f32[4, 5] : f32[4, 5]
  %5 = param "u" f32[4, 2] : f32[4, 2]
  %6 = linear(%1, %3) {act=silu} : f32[1, 5]
  %7 = linear(%6, %4) : f32[1, 4]
  %8 = linear(%2, %5) : f32[1, 4]
  %9 = binary(%7, %8) {kind=mul} : f32[1, 4]
  %10 = reshape(%9) {shape=[1, 1, 4]} : f32[1, 1, 4]
  %11 = binary(%0, %10) {kind=add} : f32[1, 3, 4]
  return "y"=%11
}
)";

HostTensor numbers(const Shape& shape, float scale) {
  HostTensor t(DType::F32, shape);
  float next = -1.5F * scale;
  for (float& v : t.mutable_as<float>()) {
    v = next;
    next = next > 2 * scale ? -2.1F * scale : next + 0.7F * scale;
  }
  return t;
}

class Numbers final : public runtime::WeightSource {
 public:
  HostTensor whole(const graph::ParamDecl& param) const override {
    return numbers(param.shape, param.name == "w" ? 1.0F : 0.5F);
  }
};

class Staged : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<StagedExecutable> load(std::int64_t capacity) {
    programs_ = compile_programs(graph_, capacity, backend_, context_, {});
    const auto all = programs_.all();
    auto weights = std::make_shared<runtime::MemoryWeights>(all);
    for (const runtime::CompiledProgram* program : all) {
      backend_.pack(*program, 0, Numbers(), *weights, context_, {});
    }
    return std::make_unique<StagedExecutable>(
        programs_, std::vector<std::shared_ptr<const runtime::PackedWeights>>{weights}, backend_,
        context_, runtime::BackendOptions{});
  }
  HostTensor joined(const HostTensor& x, const HostTensor& t, const HostTensor& text) {
    return backend_.load(graph_, Numbers(), context_, {})->run({x, t, text}).front();
  }

  Log log_{LogLevel::Off};
  ThreadPool threads_{2};
  Context context_{.log = log_, .threads = threads_};
  const runtime::Backend& backend_ = backends::find(GetParam());
  graph::Graph graph_ = graph::parse(kGraph);
  StagedPrograms programs_;
  HostTensor x_ = numbers({1, 3, 4}, 1), text_ = numbers({1, 2}, 0.3F);
};

TEST_P(Staged, EveryStepOfEveryChunkIsTheJoinedGraph) {
  const HostTensor timesteps = numbers({5, 1, 2}, 0.4F);
  for (const std::int64_t capacity : {1, 2, 3, 5, 8}) {
    const auto staged = load(capacity);
    EXPECT_TRUE(programs_.request && programs_.schedule);
    auto request = staged->begin({{"text", text_}}, {{"t", timesteps}});
    // Also backwards: a chunk that was left is computed again.
    for (const std::int64_t i : {0, 1, 2, 3, 4, 1, 0}) {
      const HostTensor t = timesteps.narrow(0, i, 1).reshaped({1, 2});
      const HostTensor y = staged->step(request, i, {{"x", x_}}).at("y");
      EXPECT_LE(compare(y, joined(x_, t, text_)).relative, 1e-6) << capacity << ' ' << i;
    }
  }
}

TEST_P(Staged, AllInputsAtOnceAreOneStep) {
  const HostTensor t = numbers({1, 2}, 0.4F);
  const auto staged = load(4);
  const HostTensor y = staged->run({{"x", x_}, {"t", t}, {"text", text_}}).at("y");
  EXPECT_LE(compare(y, joined(x_, t, text_)).relative, 1e-6);
}

TEST_P(Staged, InputsAreChecked) {
  const auto staged = load(4);
  const HostTensor t = numbers({1, 2}, 0.4F);
  EXPECT_ERROR(staged->run({{"x", x_}, {"text", text_}}), ErrorCode::InvalidArgument,
               "input 't' is missing");
  EXPECT_ERROR(staged->run({{"x", x_}, {"t", t}, {"text", text_}, {"z", t}}),
               ErrorCode::InvalidArgument, "has no input 'z'");
  EXPECT_ERROR(staged->run({{"x", t}, {"t", t}, {"text", text_}}), ErrorCode::InvalidArgument,
               "input 'x' must be f32[1, 3, 4], got [1, 2]");
  EXPECT_ERROR(staged->run({{"x", x_}, {"t", x_}, {"text", text_}}), ErrorCode::InvalidArgument,
               "input 't' must be");
  EXPECT_ERROR(staged->begin({{"text", text_}}, {{"t", HostTensor(DType::F32, Shape{0, 1, 2})}}),
               ErrorCode::InvalidArgument, "timesteps");
}

TEST_P(Staged, PlannedMemoryCountsASharedPieceOnce) {
  (void)load(4);
  std::size_t pieces = 0;
  for (const runtime::CompiledProgram* program : programs_.all()) {
    pieces += program->pieces.size();
  }
  EXPECT_EQ(pieces, 3U);
  EXPECT_EQ(planned_memory(programs_, backend_, context_, {}).weight_bytes,
            programs_.schedule->weight_bytes() + programs_.request->weight_bytes() +
                programs_.step.weight_bytes());
}

TEST_P(Staged, PlannedMemoryHoldsWhatProgramsPassOn) {
  const auto activations = [this](std::int64_t capacity) {
    (void)load(capacity);
    std::size_t own = 0;
    for (const runtime::CompiledProgram* program : programs_.all()) {
      own += backend_.plan(*program, context_, {}).arena_bytes;
    }
    return planned_memory(programs_, backend_, context_, {}).arena_bytes - own;
  };
  // Four floats of the request, and four of the schedule for each timestep of a chunk.
  EXPECT_EQ(activations(1), (4 + 4) * sizeof(float));
  EXPECT_EQ(activations(9), (4 + 9 * 4) * sizeof(float));
}

INSTANTIATE_TEST_SUITE_P(Backends, Staged, ::testing::ValuesIn(backends::names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace difflet::compile
