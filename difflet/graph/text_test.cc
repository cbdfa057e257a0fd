#include <limits>

#include <gtest/gtest.h>

#include "difflet/base/testing.h"
#include "difflet/graph/builder.h"
#include "difflet/graph/enum_names.h"
#include "difflet/graph/graph.h"

namespace difflet::graph {
namespace {

constexpr std::string_view kAll = R"(graph "every \"op\"\x0a" mesh(dp=1, cfg=1, cp=2, tp=2) {
  %0 = input() {name="x", dtype=bf16, shape=[1, 4, 8], binding=request} : bf16[1, 4, 8]
  %1 = param "w" aliases("v", "u") bf16[12, 8] split(dim=0, axis=tp, segments=[4, 8]) : bf16[6, 8]
  %2 = param "b" f32[12] split(dim=0, axis=tp) : f32[6] @ "block.0"
  %3 = constant() {value=f32[2](1, -0.1)} : f32[2]
  %4 = rank_index() {mesh_axis=cp} : i32[]
  %5 = iota() {dtype=i32, shape=[1, 4, 1], axis=1} : i32[1, 4, 1]
  %6 = linear(%0, %1, %2) {bias=true, act=gelu_tanh} : bf16[1, 4, 6] @ "block.0"
  %7 = convert(%6) : f32[1, 4, 6]
  %8 = unary(%7) {kind=rsqrt} : f32[1, 4, 6]
  %9 = binary(%8, %7) {kind=pow} : f32[1, 4, 6]
  %10 = compare(%9, %7) {kind=ge} : bool[1, 4, 6]
  %11 = select(%10, %9, %8) : f32[1, 4, 6]
  %12 = reshape(%11) {shape=[4, 6]} : f32[4, 6]
  %13 = transpose(%12) {permutation=[1, 0]} : f32[6, 4]
  %14 = broadcast(%13) {shape=[2, 6, 4]} : f32[2, 6, 4]
  %15 = slice(%14) {axis=1, start=1, limit=6, step=2} : f32[2, 3, 4]
  %16 = dynamic_slice(%15, %4) {axis=2, extent=2} : f32[2, 3, 2]
  %17 = concat(%16, %16, %16) {axis=1} : f32[2, 9, 2]
  %18 = pad(%17) {axis=1, high=1, value=0.30000000000000004} : f32[2, 10, 2]
  %19 = gather(%18, %5) : f32[1, 4, 1, 10, 2]
  %20 = reduce(%19) {kind=mean, axes=[3, 4]} : f32[1, 4, 1, 1, 1]
  %21 = argmax(%12) {axis=1} : i32[4]
  %22 = matmul(%12, %13) : f32[4, 4]
  %23 = reshape(%22) {shape=[1, 4, 4, 1]} : f32[1, 4, 4, 1]
  %24 = constant() {value=f32[1, 1, 1, 1](2)} : f32[1, 1, 1, 1]
  %25 = conv2d(%23, %24) {stride=2, pad_left=1} : f32[1, 2, 3, 1]
  %26 = all_reduce(%25) {kind=max} : f32[1, 2, 3, 1]
  %27 = all_gather(%26) {axis=1, group=2} : f32[1, 4, 3, 1]
  %28 = reduce_scatter(%27) {axis=1, group=2} : f32[1, 2, 3, 1]
  %29 = all_to_all(%28) {split_axis=1, join_axis=2, group=2} : f32[1, 1, 6, 1]
  %30 = ring_shift(%29) {shift=-1} : f32[1, 1, 6, 1]
  %31 = activate(%30) {act=quick_gelu} : f32[1, 1, 6, 1]
  %32 = layer_norm(%31) {eps=1e-05} : f32[1, 1, 6, 1]
  %33 = rms_norm(%32) {weight=false} : f32[1, 1, 6, 1]
  %34 = constant() {value=f32[1](1)} : f32[1]
  %35 = group_norm(%33, %34, %34) {act=relu} : f32[1, 1, 6, 1]
  %36 = softmax(%35) : f32[1, 1, 6, 1]
  %37 = attention(%36, %36, %36) {scale=0.125, causal=true} : f32[1, 1, 6, 1]
  %38 = upsample(%37) : f32[1, 2, 12, 1]
  %39 = reshape(%38) {shape=[1, 2, 6, 2]} : f32[1, 2, 6, 2]
  %40 = constant() {value=f32[2, 1](0, inf)} : f32[2, 1]
  %41 = rope(%39, %40, %40) {pairs=half} : f32[1, 2, 6, 2]
  %42 = group_statistics(%41) : f32[1, 1, 4]
  return "sample"=%41, "index"=%21
}
)";

std::string wrap(std::string_view body) {
  return fmt::format("graph \"t\" mesh(dp=1, cfg=1, cp=1, tp=2) {{\n{}\n}}\n", body);
}

TEST(Text, PrintsWhatItParses) { EXPECT_EQ(print(parse(kAll)), kAll); }

TEST(Text, ShowsEveryOp) {
  const Graph graph = parse(kAll);
  std::vector<bool> seen(std::variant_size_v<Op>, false);
  for (const Node& node : graph.nodes()) {
    seen[node.op.index()] = true;
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_TRUE(seen[i]) << "op " << i;
  }
}

TEST(Text, ConstantsSurviveBitForBit) {
  Graph graph("t");
  HostTensor nan = HostTensor(DType::F32, Shape{2});
  nan.mutable_as<std::uint32_t>()[0] = 0x7fc12345U;
  nan.mutable_as<std::uint32_t>()[1] = 0x80000000U;
  HostTensor large(DType::F16, Shape{5, 5});
  for (std::size_t i = 0; i < 25; ++i) {
    large.mutable_as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i * 1237);
  }
  const std::vector<HostTensor> values{nan,
                                       large,
                                       scalar_tensor(DType::BF16, 1.0 / 3),
                                       scalar_tensor(DType::F32, -0.0),
                                       scalar_tensor(DType::F16, 1e-7),
                                       scalar_tensor(DType::I64, -1e15),
                                       scalar_tensor(DType::I32, 7),
                                       scalar_tensor(DType::Bool, 1),
                                       scalar_tensor(DType::F32, 0.1)};
  for (const HostTensor& value : values) {
    graph.add(Constant{value}, {});
  }
  const std::string text = print(graph);
  const Graph again = parse(text);
  EXPECT_EQ(print(again), text);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bytes = std::get<Constant>(again.nodes()[i].op).value.bytes();
    EXPECT_TRUE(std::ranges::equal(bytes, values[i].bytes())) << i;
  }
}

TEST(Text, NumbersNeedNotBeDense) {
  EXPECT_EQ(print(parse(wrap("%7 = iota() {shape=[2]} : f32[2] return \"y\"=%7"))),
            "graph \"t\" mesh(dp=1, cfg=1, cp=1, tp=2) {\n  %0 = iota() {shape=[2]} : f32[2]\n"
            "  return \"y\"=%0\n}\n");
}

void expect_refused(std::string_view body, std::string_view message) {
  EXPECT_ERROR(parse(wrap(body)), ErrorCode::InvalidArgument, message);
}

TEST(Text, RefusalsNameTheLine) {
  expect_refused("%0 = iota() {shape=[2]} : f32[2]\n%1 = unary(%0) : f32[3]",
                 "graph text, line 3: %1 has type f32[2], not f32[3]");
  expect_refused("%0 = iota() {shape=[2]} : f32[2]\n%1 = binary(%0, %5) : f32[2]",
                 "line 3: %5 is not defined");
}

TEST(Text, RefusesWhatIsNotAGraph) {
  expect_refused("%0 = nonsense() : f32[]", "unknown op");
  expect_refused("%0 = iota() {shape=[2], extent=3} : f32[2]", "iota has no attribute extent");
  expect_refused("%0 = iota() {axis=0, axis=0} : f32[2]", "attribute axis appears twice");
  expect_refused("%0 = iota() {dtype=f33, shape=[2]} : f32[2]", "unknown dtype");
  expect_refused("%0 = iota() {shape=[2]} : f32[2] %0 = iota() {shape=[2]} : f32[2]",
                 "%0 is defined twice");
  expect_refused(R"(%0 = param "w" f32[2] : f32[2] %1 = param "w" f32[2] : f32[2])",
                 "declared twice");
  expect_refused(R"(%0 = input() {name="x"} : f32[] %1 = input() {name="x"} : f32[])",
                 "input 'x' is declared twice");
  expect_refused(R"(%0 = rank_index() : i32[] return "y"=%0, "y"=%0)",
                 "output 'y' is declared twice");
  expect_refused("%0 = constant() {value=f32[3](1, 2)} : f32[3]", "expected ','");
  expect_refused("%0 = constant() {value=f32[3] hex(00)} : f32[3]", "does not fit the type");
  expect_refused("%0 = constant() {value=f32[1] hex(0000zz00)} : f32[1]", "hexadecimal digits");
  expect_refused("%0 = input() {name=\"x} : f32[]", "a string does not end");
  expect_refused(R"(%0 = input() {name="\q"} : f32[])", "unknown escape");
  EXPECT_ERROR(parse(wrap("") + "more"), ErrorCode::InvalidArgument, "text after the graph");
  EXPECT_ERROR(parse(""), ErrorCode::InvalidArgument, "expected 'graph'");
  EXPECT_ERROR(parse("graph \"t\" mesh(dp=0, cfg=1, cp=1, tp=1) {}"), ErrorCode::InvalidArgument,
               "must be 1 to 4096");
}

TEST(Text, RefusesSizesThatOverflow) {
  expect_refused("%0 = iota() {shape=[4294967296, 4294967296]} : f32[1]", "too large");
  expect_refused("%0 = iota() {shape=[99999999999999999999]} : f32[1]", "expected a number");
  expect_refused("%0 = iota() {shape=[1,1,1,1,1,1,1,1,1]} : f32[1]", "above the limit");
  expect_refused("%0 = iota() {shape=[-1]} : f32[1]", "negative");
  expect_refused("%0 = iota() {shape=[0]} : f32[0]", "is empty");
  expect_refused("%0 = iota() {shape=[2]} : f32[2] %1 = pad(%0) {low=9223372036854775807} : f32[2]",
                 "too large");
  expect_refused(
      "%0 = iota() {shape=[1,2,2,1]} : f32[1,2,2,1]\n"
      "%1 = upsample(%0) {factor=9223372036854775807} : f32[1,2,2,1]",
      "too large");
  expect_refused("%0 = constant() {value=f32[1000000000](1)} : f32[1000000000]", "hexadecimal");
}

template <typename E>
void expect_names(E last) {
  for (std::size_t i = 0; i <= static_cast<std::size_t>(last); ++i) {
    const auto value = static_cast<E>(i);
    EXPECT_EQ(parse_enum<E>(enum_name(value)), value);
  }
  EXPECT_EQ(names(E{}).size(), static_cast<std::size_t>(last) + 1);
}

TEST(EnumNames, CoverEveryValue) {
  expect_names(Binding::Step);
  expect_names(UnaryKind::Floor);
  expect_names(BinaryKind::Pow);
  expect_names(CompareKind::Ge);
  expect_names(ReduceKind::Mean);
  expect_names(Activation::Relu);
  expect_names(RopePairs::Half);
}

}  // namespace
}  // namespace difflet::graph
