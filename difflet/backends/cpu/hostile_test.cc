// Programs whose text was damaged, or written to harm: load() must end in an Error.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "difflet/backends/cpu/testing.h"
#include "difflet/base/testing.h"

namespace difflet::cpu {
namespace {

using runtime::CompiledProgram;

// Any piece of a size that fits into this machine, of zeros.
class AnyWeights final : public runtime::PackedWeights {
 public:
  std::span<const std::byte> piece(const runtime::WeightPiece& piece) const override {
    check(piece.bytes <= memory_.bytes().size(), ErrorCode::DataLoss,
          "weight piece '{}' is missing", piece.name);
    return memory_.bytes().first(piece.bytes);
  }

 private:
  HostTensor memory_{DType::U8, Shape{1 << 20}};
};

class Hostile : public ::testing::Test {
 protected:
  // A program that lists what its body, whose last value is %r, has.
  static CompiledProgram program(const std::string& body) {
    CompiledProgram p;
    p.code = fmt::format("graph \"g\" mesh(dp=1, cfg=1, cp=1, tp=1) {{\n{}\n}}\n", body);
    return listed(std::move(p));
  }
  static CompiledProgram listed(CompiledProgram p) {
    const graph::Graph g = graph::parse(p.code);
    p.name = g.name();
    p.mesh = g.mesh();
    p.inputs = runtime::input_ports(g);
    p.outputs = runtime::output_ports(g);
    return p;
  }
  Error refusal(const CompiledProgram& p) {
    return difflet::testing::error_of([&] {
      (void)backend_.load(p, {std::make_shared<AnyWeights>()}, context_,
                          {.memory_limit = std::size_t{1} << 30U});
    });
  }
  void expect_refused(const std::string& body) {
    const Error e = refusal(program(body));
    EXPECT_NE(e.code(), ErrorCode::Internal) << e.message();
  }

  CpuBackend backend_;
  Log log_{LogLevel::Error};
  ThreadPool threads_{2};
  Context context_{log_, threads_};
};

TEST_F(Hostile, TextThatIsNoGraph) {
  CompiledProgram p = program(R"(%0 = input() {name="x", shape=[2]} : f32[2] return "y"=%0)");
  for (const std::string& code :
       {std::string(), std::string("graph"), std::string(1000, '\0'),
        p.code.substr(0, p.code.size() / 2), fmt::format("{0}{0}", p.code)}) {
    p.code = code;
    EXPECT_EQ(refusal(p).code(), ErrorCode::DataLoss);
  }
}

TEST_F(Hostile, ListsThatAreNotThoseOfTheText) {
  const CompiledProgram good = program(R"(%0 = input() {name="x", shape=[2]} : f32[2]
                 %1 = param "w" f32[2] : f32[2]
                 %2 = binary(%0, %1) : f32[2]
                 return "y"=%2)");
  EXPECT_EQ(refusal(good).code(), ErrorCode::DataLoss);  // the piece is not listed
  const std::vector<std::function<void(CompiledProgram&)>> changes{
      [](CompiledProgram& p) { p.name.append("h"); },
      [](CompiledProgram& p) { p.inputs.clear(); },
      [](CompiledProgram& p) { p.outputs[0].type.dtype = DType::BF16; },
      [](CompiledProgram& p) { p.pieces = {{"w|plain.f32", 0}}; },
      [](CompiledProgram& p) { p.pieces = {{"v|plain.f32", 64}}; },
      [](CompiledProgram& p) { p.pieces.push_back({"w|plain.f32", 64}); }};
  for (const auto& change : changes) {
    CompiledProgram p = good;
    p.pieces = {{"w|plain.f32", 64}};
    change(p);
    EXPECT_EQ(refusal(p).code(), ErrorCode::DataLoss);
  }
}

TEST_F(Hostile, AMeshOfManyRanks) {
  CompiledProgram p;
  p.code = R"(graph "g" mesh(dp=1, cfg=1, cp=1, tp=2) {
    %0 = input() {name="x", shape=[2]} : f32[2]
    return "y"=%0
  })";
  p = listed(p);
  EXPECT_EQ(refusal(p).code(), ErrorCode::Unsupported);
  p.mesh = {};
  EXPECT_EQ(refusal(p).code(), ErrorCode::DataLoss);
}

// One line a node; each near 2^60 elements, or of many that are each large.
TEST_F(Hostile, SizesThatOverflow) {
  for (const char* body : {
           R"(%0 = input() {name="x", shape=[1152921504606846975]} : f32[1152921504606846975]
              return "y"=%0)",
           R"(%0 = iota() {shape=[1152921504606846975]} : f32[1152921504606846975]
              %1 = unary(%0) : f32[1152921504606846975]
              return "y"=%1)",
           R"(%0 = param "w" f32[1152921504606846975] : f32[1152921504606846975]
              %1 = unary(%0) : f32[1152921504606846975]
              return "y"=%1)",
           R"(%0 = input() {name="x", shape=[1, 1152921504606846975]} : f32[1, 1152921504606846975]
              %1 = param "w" f32[1, 1152921504606846975] : f32[1, 1152921504606846975]
              %2 = linear(%0, %1) : f32[1, 1]
              return "y"=%2)",
           R"(%0 = input() {name="x", shape=[1, 1]} : f32[1, 1]
              %1 = param "w" f32[1152921504606846975, 1] : f32[1152921504606846975, 1]
              %2 = linear(%0, %1) : f32[1, 1152921504606846975]
              return "y"=%2)",
           R"(%0 = input() {name="x", shape=[1, 2000000000000]} : f32[1, 2000000000000]
              %1 = param "w" f32[1, 2000000000000] : f32[1, 2000000000000]
              %2 = linear(%0, %1) : f32[1, 1]
              return "y"=%2)",
           R"(%0 = input() {name="x", shape=[1, 2000000000000]} : f32[1, 2000000000000]
              %1 = input() {name="w", shape=[2000000000000, 1]} : f32[2000000000000, 1]
              %2 = matmul(%0, %1) : f32[1, 1]
              return "y"=%2)",
           R"(%0 = input() {name="x", shape=[1, 1, 1, 64]} : f32[1, 1, 1, 64]
              %1 = input() {name="k", shape=[1, 60000000000, 1, 64]} : f32[1, 60000000000, 1, 64]
              %2 = attention(%0, %1, %1) : f32[1, 1, 1, 64]
              %3 = transpose(%1) {permutation=[3, 2, 1, 0]} : f32[64, 1, 60000000000, 1]
              %4 = unary(%3) : f32[64, 1, 60000000000, 1]
              return "y"=%2, "z"=%4)"}) {
    expect_refused(body);
  }
}

// Hundreds of values of 2^44 bytes.
TEST_F(Hostile, SumsThatOverflow) {
  std::string chain = "%0 = iota() {shape=[4398046511104]} : f32[4398046511104]\n";
  for (int i = 1; i < 300; ++i) {
    chain += fmt::format("%{} = binary(%0, %{}) : f32[4398046511104]\n", i, i - 1);
  }
  chain += "return \"y\"=%299";
  expect_refused(chain);
}

TEST_F(Hostile, CopiesInMorePartsThanMemoryHolds) {
  expect_refused(R"(%0 = input() {name="x", shape=[4096, 2, 4096, 2, 4096, 2]}
                       : f32[4096, 2, 4096, 2, 4096, 2]
                    %1 = transpose(%0) {permutation=[4, 1, 2, 3, 0, 5]}
                       : f32[4096, 2, 4096, 2, 4096, 2]
                    %2 = unary(%1) : f32[4096, 2, 4096, 2, 4096, 2]
                    return "y"=%2)");
}

TEST_F(Hostile, ConvolutionsThatOneDnnCannotCount) {
  expect_refused(R"(%0 = input() {name="x", shape=[1, 1000000000000, 1, 1]}
                       : f32[1, 1000000000000, 1, 1]
                    %1 = param "w" f32[1, 1, 1, 1] : f32[1, 1, 1, 1]
                    %2 = conv2d(%0, %1) : f32[1, 1000000000000, 1, 1]
                    return "y"=%2)");
  expect_refused(R"(%0 = input() {name="x", shape=[1, 1048576, 1048576, 1]}
                       : f32[1, 1048576, 1048576, 1]
                    %1 = param "w" f32[1, 1, 1, 1] : f32[1, 1, 1, 1]
                    %2 = conv2d(%0, %1) : f32[1, 1048576, 1048576, 1]
                    return "y"=%2)");
  expect_refused(R"(%0 = input() {name="x", shape=[1, 1, 1, 1]} : f32[1, 1, 1, 1]
                    %1 = param "w" f32[1024, 1, 1, 1] : f32[1024, 1, 1, 1]
                    %2 = conv2d(%0, %1) {pad_top=1048575, pad_left=1048575}
                       : f32[1, 1048576, 1048576, 1024]
                    return "y"=%2)");
}

TEST_F(Hostile, OpsAndTypesThatPreparingWouldHaveExpanded) {
  expect_refused(R"(%0 = input() {name="x", dtype=f16, shape=[4, 8]} : f16[4, 8]
                    %1 = param "w" f16[8, 8] : f16[8, 8]
                    %2 = linear(%0, %1) : f16[4, 8]
                    return "y"=%2)");
  expect_refused(R"(%0 = input() {name="q", shape=[1, 2, 1, 8]} : f32[1, 2, 1, 8]
                    %1 = input() {name="v", shape=[1, 2, 1, 4]} : f32[1, 2, 1, 4]
                    %2 = attention(%0, %0, %1) : f32[1, 2, 1, 4]
                    return "y"=%2)");
}

}  // namespace
}  // namespace difflet::cpu
