// Every op on every backend and level, against the reference evaluated in f32 on the same values.

#include <algorithm>
#include <cmath>

#include "tests/conformance/cases.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "difflet/backends/cpu/kernels/level.h"
#include "difflet/backends/reference/reference.h"
#include "difflet/backends/registry.h"
#include "difflet/base/context.h"

namespace difflet::conformance {
namespace {

struct Variant {
  std::string backend;
  std::string level;  // --cpu-level; empty: the backend has none
};

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const std::string& name : backends::names()) {
    if (name != "cpu") {
      all.push_back({name, ""});
      continue;
    }
    for (int level = 0; level <= static_cast<int>(cpu::detect_level()); ++level) {
      all.push_back({name, std::string(cpu::level_name(static_cast<cpu::Level>(level)))});
    }
  }
  return all;
}

std::vector<std::string> op_names() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return std::vector<std::string>{
        std::string(std::variant_alternative_t<I, graph::Op>::kName)...};
  }(std::make_index_sequence<std::variant_size_v<graph::Op>>());
}

template <typename... O>
bool is_any(const graph::Op& op) {
  return (std::holds_alternative<O>(op) || ...);
}

bool rounds(const graph::Op& op) {
  return is_any<graph::Unary, graph::Binary, graph::Reduce, graph::MatMul, graph::Conv2d,
                graph::Linear, graph::Activate, graph::LayerNorm, graph::RmsNorm, graph::GroupNorm,
                graph::GroupStatistics, graph::Softmax, graph::Attention, graph::Rope>(op);
}

// How far an element may be off: parts of its own size, of the largest element, and a constant.
struct Tolerance {
  double relative = 0;
  double of_largest = 0;
  double absolute = 0;
};

// Ops that move values or compare them are exact. A sum is as exact as its largest addends, an
// elementwise function as its own result; attention rounds its weights, Winograd its tiles: that is
// what a 3x3 convolution from 32 channels on may run through.
Tolerance tolerance(const Case& c, DType floats) {
  const graph::Op& op = c.op;
  if (!rounds(op)) {
    return {};
  }
  Tolerance t{.relative = 1e-5, .of_largest = 1e-5};
  if (is_any<graph::Unary, graph::Binary, graph::Activate>(op)) {
    t = {.relative = 1e-5, .absolute = 1e-6};
  }
  if (floats == DType::BF16) {
    t.relative = 1.0 / 256;
    if (is_any<graph::Attention>(op)) {
      t.of_largest = 1.0 / 128;
    }
    if (is_any<graph::Conv2d>(op) && c.operands[1].shape[1] >= 32) {
      t.of_largest = 1.0 / 256;
    }
  }
  return t;
}

void expect_close(const HostTensor& got, const HostTensor& expected, const Tolerance& tolerance) {
  ASSERT_EQ(got.shape(), expected.shape());
  const std::vector<float> a = got.to_floats();
  const std::vector<float> b = expected.to_floats();
  double largest = 0;
  for (const float v : b) {
    largest = std::max(largest, std::abs(double{v}));
  }
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double allowed = tolerance.relative * std::abs(double{b[i]}) +
                           tolerance.of_largest * largest + tolerance.absolute;
    ASSERT_LE(std::abs(double{a[i]} - double{b[i]}), allowed)
        << "element " << i << " is " << a[i] << ", the reference " << b[i] << "; largest "
        << largest;
  }
}

class Conformance : public ::testing::TestWithParam<std::tuple<Variant, std::string, DType>> {
 protected:
  HostTensor run(const Case& c, const std::vector<HostTensor>& all, DType floats) {
    const Variant& variant = std::get<0>(GetParam());
    const auto executable = backends::find(variant.backend)
                                .load(build(c, floats), CaseWeights(all), context_,
                                      {.cpu_level = variant.level, .memory_limit = 0});
    const std::vector<HostTensor> given = inputs(c, all, floats);
    executable->run(given);  // a second run finds what the first left in the arena
    return executable->run(given).at(0);
  }

 private:
  Log log_{LogLevel::Warning};
  ThreadPool threads_{2};
  Context context_{log_, threads_};
};

TEST_P(Conformance, EqualsTheReference) {
  const auto& [variant, op, floats] = GetParam();
  for (const Case& c : cases()) {
    if (graph::op_name(c.op) != op) {
      continue;
    }
    SCOPED_TRACE(c.name);
    const std::vector<HostTensor> all = values(c, floats);
    const HostTensor expected = reference::run_ranks(build(c, DType::F32), CaseWeights(all),
                                                     inputs(c, all, DType::F32))[0][0];
    HostTensor got;
    ASSERT_NO_THROW(got = run(c, all, floats));
    const graph::Graph program = build(c, floats);
    EXPECT_EQ(got.dtype(), program.node(program.outputs()[0].node).type.dtype);
    expect_close(got, expected, tolerance(c, floats));
  }
}

std::string name_of(const ::testing::TestParamInfo<Conformance::ParamType>& tested) {
  const auto& [variant, op, floats] = tested.param;
  return fmt::format("{}{}{}_{}_{}", variant.backend, variant.level.empty() ? "" : "_",
                     variant.level, op, dtype_name(floats));
}

INSTANTIATE_TEST_SUITE_P(Ops, Conformance,
                         ::testing::Combine(::testing::ValuesIn(variants()),
                                            ::testing::ValuesIn(op_names()),
                                            ::testing::Values(DType::F32, DType::BF16)),
                         name_of);

TEST(Cases, CoverEveryOp) {
  std::vector<bool> seen(std::variant_size_v<graph::Op>, false);
  for (const Case& c : cases()) {
    seen[c.op.index()] = true;
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_TRUE(seen[i]) << op_names()[i] << " has no case";
  }
}

TEST(Cases, HaveNamesOfTheirOwn) {
  std::vector<std::string> names;
  for (const Case& c : cases()) {
    names.push_back(c.name);
  }
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

}  // namespace
}  // namespace difflet::conformance
