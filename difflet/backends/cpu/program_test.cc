// Programs ahead of time: what compile() says, pack() makes and load() reads.
#include <algorithm>
#include <cstring>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "difflet/backends/cpu/planner.h"
#include "difflet/backends/cpu/testing.h"
#include "difflet/base/testing.h"

namespace difflet::cpu {
namespace {

using runtime::CompiledProgram;
using runtime::PackedWeights;
using runtime::WeightPiece;
using ::testing::ElementsAre;
using testing::everything;
using testing::inputs_of;
using testing::Program;
using testing::Weights;
using Id = graph::NodeId;

// A sink over memory that held something else, which also tells what it was asked.
class DirtySink final : public runtime::PieceSink, public PackedWeights {
 public:
  explicit DirtySink(std::uint8_t dirt, std::string unwanted = "")
      : dirt_(dirt), unwanted_(std::move(unwanted)) {}
  std::span<std::byte> begin(const WeightPiece& piece) override {
    begun.push_back(piece.name);
    if (piece.name == unwanted_) {
      return {};
    }
    HostTensor memory(DType::U8, Shape{static_cast<std::int64_t>(piece.bytes)});
    std::ranges::fill(memory.mutable_bytes(), std::byte{dirt_});
    return (pieces_[piece.name] = std::move(memory)).mutable_bytes();
  }
  void end(const WeightPiece& piece) override { ended.push_back(piece.name); }
  std::span<const std::byte> piece(const WeightPiece& piece) const override {
    const auto found = pieces_.find(piece.name);
    check(found != pieces_.end(), ErrorCode::DataLoss, "weight piece '{}' is missing", piece.name);
    return found->second.bytes();
  }
  std::vector<std::string> begun, ended;

 private:
  std::uint8_t dirt_;
  std::string unwanted_;
  std::map<std::string, HostTensor> pieces_;
};

// Tells which tensors were read and let go, in order.
class TracedWeights final : public runtime::WeightSource {
 public:
  HostTensor whole(const graph::ParamDecl& param) const override {
    events.push_back("read " + param.name);
    return weights_.whole(param);
  }
  void done(const graph::ParamDecl& param) const override {
    events.push_back("done " + param.name);
  }
  mutable std::vector<std::string> events;

 private:
  Weights weights_;
};

class Ahead : public ::testing::Test {
 protected:
  CompiledProgram compile(const graph::Graph& g, const std::string& level = "") {
    return backend_.compile(g, context_, {.cpu_level = level});
  }
  void pack(const CompiledProgram& program, runtime::PieceSink& sink,
            const runtime::WeightSource& weights = Weights()) {
    backend_.pack(program, 0, weights, sink, context_, {});
  }
  std::shared_ptr<runtime::MemoryWeights> packed(std::vector<const CompiledProgram*> programs) {
    auto memory = std::make_shared<runtime::MemoryWeights>(programs);
    for (const CompiledProgram* program : programs) {
      pack(*program, *memory);
    }
    return memory;
  }
  std::unique_ptr<runtime::Executable> load(const CompiledProgram& program,
                                            std::shared_ptr<const PackedWeights> weights) {
    return backend_.load(program, {std::move(weights)}, context_, {});
  }
  std::vector<HostTensor> run(const CompiledProgram& program,
                              const std::shared_ptr<const PackedWeights>& weights,
                              const graph::Graph& g) {
    return load(program, weights)->run(inputs_of(g));
  }

  CpuBackend backend_;
  Log log_{LogLevel::Error};
  ThreadPool threads_{2};
  Context context_{log_, threads_};
};

void expect_same(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].bytes().size(), b[i].bytes().size());
    EXPECT_EQ(std::memcmp(a[i].bytes().data(), b[i].bytes().data(), a[i].bytes().size()), 0)
        << "output " << i;
  }
}

std::vector<std::string> names(const CompiledProgram& program) {
  std::vector<std::string> all;
  all.reserve(program.pieces.size());
  for (const WeightPiece& piece : program.pieces) {
    all.push_back(piece.name);
  }
  return all;
}

// y = x . w^T + b, rows of x given.
Program product(std::int64_t rows, DType floats = DType::F32) {
  Program p(floats);
  const Id x = p.input("x", {rows, 40});
  p.output(p.add(graph::Linear{.bias = true}, {x, p.param("w", {24, 40}), p.param("b", {24})}));
  return p;
}

// ---- compile ------------------------------------------------------------------------------------

TEST_F(Ahead, AProgramSaysItsPortsAndPieces) {
  const CompiledProgram p = compile(product(3, DType::BF16).graph(), "scalar");
  EXPECT_THAT(p.inputs, ElementsAre(runtime::Port{"x", {DType::BF16, Shape{3, 40}}}));
  EXPECT_THAT(p.outputs, ElementsAre(runtime::Port{"y0", {DType::BF16, Shape{3, 24}}}));
  EXPECT_EQ(p.mesh.ranks(), 1);
  // The bias is rounded to bf16 and then widened.
  EXPECT_THAT(names(p), ElementsAre("w|linear.scalar.bf16", "b|plain.bf16.f32"));
  for (const WeightPiece& piece : p.pieces) {
    EXPECT_EQ(piece.bytes % runtime::kPieceAlignment, 0U);
  }
  EXPECT_EQ(graph::print(graph::parse(p.code)), p.code);
}

TEST_F(Ahead, TheToolchainNamesLevelLibraryAndFormat) {
  const auto t = backend_.toolchain({.cpu_level = "scalar"});
  EXPECT_EQ(t.at("cpu_level"), "scalar");
  EXPECT_THAT(t.at("onednn"), ::testing::ContainsRegex("^[0-9]+\\.[0-9]+\\.[0-9]+$"));
  EXPECT_EQ(t.count("program_format"), 1U);
  EXPECT_EQ(backend_.toolchain({}).at("cpu_level"), level_name(detect_level()));
  EXPECT_ERROR((void)backend_.toolchain({.cpu_level = "sse9"}), ErrorCode::InvalidArgument, "sse9");
}

TEST_F(Ahead, PiecesAndCodeDoNotDependOnThreads) {
  const Program p = everything(DType::BF16);
  ThreadPool one(1);
  Context context{log_, one};
  const CompiledProgram a = compile(p.graph());
  const CompiledProgram b = backend_.compile(p.graph(), context, {});
  EXPECT_EQ(a.pieces, b.pieces);
  EXPECT_EQ(a.code, b.code);
}

TEST_F(Ahead, TheTextIsPlannedAsTheFreshGraphIs) {
  for (const DType floats : {DType::F32, DType::BF16}) {
    const Program p = everything(floats);
    const graph::Graph fresh = prepare(p.graph());
    const CompiledProgram program = compile(p.graph());
    const Plan of_text = Planner(graph::parse(program.code), {.level = detect_level()}).build();
    const Plan of_fresh = Planner(fresh, {.level = detect_level()}).build();
    EXPECT_EQ(of_text.pieces(), of_fresh.pieces());
    EXPECT_EQ(of_text.arena_offset, of_fresh.arena_offset);
    EXPECT_EQ(of_text.scratch_bytes, of_fresh.scratch_bytes);
    ASSERT_EQ(of_text.steps.size(), of_fresh.steps.size());
    for (std::size_t i = 0; i < of_text.steps.size(); ++i) {
      EXPECT_EQ(of_text.steps[i].what, of_fresh.steps[i].what);
    }
  }
}

// Bit-identical: constants and attributes survive the text.
TEST_F(Ahead, RunsAsItsTextsTextDoes) {
  const Program p = everything(DType::BF16);
  const CompiledProgram once = compile(p.graph());
  const CompiledProgram twice = compile(graph::parse(graph::print(p.graph())));
  EXPECT_EQ(once.code, twice.code);
  const auto weights = packed({&once});
  expect_same(run(once, weights, p.graph()), run(twice, weights, p.graph()));
}

// ---- pack ---------------------------------------------------------------------------------------

TEST_F(Ahead, PackingStreamsInTheOrderOfThePieces) {
  const CompiledProgram program = compile(everything(DType::BF16).graph());
  DirtySink sink(0xff);
  TracedWeights weights;
  pack(program, sink, weights);
  EXPECT_EQ(sink.begun, names(program));
  EXPECT_EQ(sink.ended, names(program));
  // One tensor is let go before the next is read.
  ASSERT_EQ(weights.events.size() % 2, 0U);
  for (std::size_t i = 0; i < weights.events.size(); i += 2) {
    EXPECT_EQ(weights.events[i].substr(0, 5), "read ");
    EXPECT_EQ(weights.events[i + 1], "done " + weights.events[i].substr(5));
  }
}

TEST_F(Ahead, PackingWritesEveryByte) {
  for (const DType floats : {DType::F32, DType::BF16}) {
    for (const std::string& level : testing::levels()) {
      const CompiledProgram program = compile(everything(floats).graph(), level);
      DirtySink zeros(0);
      DirtySink ones(0xff);
      for (DirtySink* sink : {&zeros, &ones}) {
        backend_.pack(program, 0, Weights(), *sink, context_, {.cpu_level = level});
      }
      for (const WeightPiece& piece : program.pieces) {
        EXPECT_TRUE(std::ranges::equal(zeros.piece(piece), ones.piece(piece))) << piece.name;
      }
    }
  }
}

TEST_F(Ahead, WhatTheSinkDoesNotWantIsNotRead) {
  const CompiledProgram program = compile(product(3).graph());
  DirtySink sink(0, names(program)[0]);
  TracedWeights weights;
  pack(program, sink, weights);
  EXPECT_THAT(weights.events, ElementsAre("read b", "done b"));
  EXPECT_THAT(sink.ended, ElementsAre(names(program)[1]));
}

TEST_F(Ahead, RefusesARankThatIsNotThere) {
  const CompiledProgram program = compile(product(3).graph());
  DirtySink sink(0);
  EXPECT_ERROR(backend_.pack(program, 1, Weights(), sink, context_, {}), ErrorCode::InvalidArgument,
               "there is no rank 1");
}

TEST_F(Ahead, RefusesAWeightOfAnotherKindOfNumber) {
  const CompiledProgram program = compile(product(3).graph());
  Weights weights;
  weights.set("w", HostTensor(DType::I32, Shape{24, 40}));
  DirtySink sink(0);
  EXPECT_ERROR(pack(program, sink, weights), ErrorCode::InvalidArgument,
               "tensor 'w' is of i32, which does not convert to f32");
}

// ---- load ---------------------------------------------------------------------------------------

TEST_F(Ahead, ProgramsOfAllSizesShareOnePacking) {
  const Program small = product(1, DType::BF16);
  const Program large = product(200, DType::BF16);
  const CompiledProgram a = compile(small.graph());
  const CompiledProgram b = compile(large.graph());
  EXPECT_EQ(a.pieces, b.pieces);
  const auto shared = packed({&a, &b});
  EXPECT_EQ(shared->bytes(), a.weight_bytes());
  const auto first = load(a, shared);
  const auto second = load(b, shared);
  expect_same(first->run(inputs_of(small.graph())),
              testing::Loaded(small.graph())->run(inputs_of(small.graph())));
  expect_same(second->run(inputs_of(large.graph())),
              testing::Loaded(large.graph())->run(inputs_of(large.graph())));
}

TEST_F(Ahead, AnExecutableKeepsItsWeights) {
  const Program p = product(3);
  const CompiledProgram program = compile(p.graph());
  auto weights = packed({&program});
  const std::weak_ptr<runtime::MemoryWeights> alive = weights;
  auto executable = load(program, std::move(weights));
  EXPECT_FALSE(alive.expired());
  EXPECT_EQ(executable->memory().weight_bytes, program.weight_bytes());
  EXPECT_EQ(executable->run(inputs_of(p.graph())).size(), 1U);
  executable.reset();
  EXPECT_TRUE(alive.expired());
}

TEST_F(Ahead, LoadingNamesWhatIsMissing) {
  const CompiledProgram program = compile(product(3).graph());
  const auto sink = std::make_shared<DirtySink>(0, names(program)[1]);
  pack(program, *sink);
  EXPECT_ERROR((void)load(program, sink), ErrorCode::DataLoss,
               "'" + names(program)[1] + "' is missing");
  EXPECT_ERROR((void)backend_.load(program, {}, context_, {}), ErrorCode::InvalidArgument,
               "has 1 ranks, but there are weights for 0");
  EXPECT_ERROR((void)load(program, nullptr), ErrorCode::InvalidArgument, "weights for");
}

TEST_F(Ahead, LoadingRefusesAProgramOfAnotherLevel) {
  if (detect_level() == Level::Scalar) {
    GTEST_SKIP() << "this chip has one level";
  }
  const CompiledProgram program = compile(product(3).graph(), "scalar");
  EXPECT_ERROR((void)backend_.plan(program, context_, {}), ErrorCode::DataLoss,
               "it reads 'w|linear.scalar.f32'");
}

TEST_F(Ahead, LoadingKeepsToTheLimit) {
  const CompiledProgram program = compile(product(3).graph());
  const auto weights = packed({&program});
  EXPECT_ERROR((void)backend_.load(program, {weights}, context_, {.memory_limit = 1000}),
               ErrorCode::ResourceExhausted, "more than the limit of 1.0 kB");
}

}  // namespace
}  // namespace difflet::cpu
