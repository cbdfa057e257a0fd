#include "difflet/graph/op.h"

#include "difflet/graph/enum_names.h"

namespace difflet::graph {
namespace {

using Names = std::string_view[];

constexpr Names kBinding = {"request", "schedule", "step"};
constexpr Names kUnary = {"neg",  "abs",   "exp",  "log", "sin",     "cos",
                          "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "floor"};
constexpr Names kBinary = {"add", "sub", "mul", "div", "max", "min", "pow"};
constexpr Names kCompare = {"eq", "ne", "lt", "le", "gt", "ge"};
constexpr Names kReduce = {"sum", "max", "min", "mean"};
constexpr Names kActivation = {"none", "gelu_tanh", "gelu_erf", "quick_gelu", "silu", "relu"};
constexpr Names kWeightQuant = {"none", "w8a16", "w8a8"};
constexpr Names kRopePairs = {"interleaved", "half"};

}  // namespace

std::span<const std::string_view> names(Binding) noexcept { return kBinding; }
std::span<const std::string_view> names(UnaryKind) noexcept { return kUnary; }
std::span<const std::string_view> names(BinaryKind) noexcept { return kBinary; }
std::span<const std::string_view> names(CompareKind) noexcept { return kCompare; }
std::span<const std::string_view> names(ReduceKind) noexcept { return kReduce; }
std::span<const std::string_view> names(Activation) noexcept { return kActivation; }
std::span<const std::string_view> names(WeightQuant) noexcept { return kWeightQuant; }
std::span<const std::string_view> names(RopePairs) noexcept { return kRopePairs; }

std::string_view op_name(const Op& op) noexcept {
  return std::visit([](const auto& o) { return std::decay_t<decltype(o)>::kName; }, op);
}

bool is_composite(const Op& op) noexcept {
  return std::visit(overloaded{
                        [](const Input&) { return false; },
                        [](const Param&) { return false; },
                        [](const Constant&) { return false; },
                        [](const RankIndex&) { return false; },
                        [](const Iota&) { return false; },
                        [](const Unary&) { return false; },
                        [](const Binary&) { return false; },
                        [](const Compare&) { return false; },
                        [](const Select&) { return false; },
                        [](const Convert&) { return false; },
                        [](const Reshape&) { return false; },
                        [](const Transpose&) { return false; },
                        [](const Broadcast&) { return false; },
                        [](const Slice&) { return false; },
                        [](const DynamicSlice&) { return false; },
                        [](const Concat&) { return false; },
                        [](const Pad&) { return false; },
                        [](const Gather&) { return false; },
                        [](const Reduce&) { return false; },
                        [](const ArgMax&) { return false; },
                        [](const MatMul&) { return false; },
                        [](const Conv2d&) { return false; },
                        [](const AllReduce&) { return false; },
                        [](const AllGather&) { return false; },
                        [](const ReduceScatter&) { return false; },
                        [](const AllToAll&) { return false; },
                        [](const RingShift&) { return false; },
                        [](const Linear&) { return true; },
                        [](const Activate&) { return true; },
                        [](const LayerNorm&) { return true; },
                        [](const RmsNorm&) { return true; },
                        [](const GroupNorm&) { return true; },
                        [](const GroupStatistics&) { return true; },
                        [](const Softmax&) { return true; },
                        [](const Attention&) { return true; },
                        [](const Rope&) { return true; },
                        [](const Upsample&) { return true; },
                    },
                    op);
}

}  // namespace difflet::graph
