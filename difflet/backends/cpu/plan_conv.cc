// Convolution steps.
#include <algorithm>
#include <optional>

#include "difflet/backends/cpu/conv.h"
#include "difflet/backends/cpu/planner.h"
#include "difflet/backends/cpu/scalar_walk.h"
#include "difflet/base/error.h"

namespace difflet::cpu {

using graph::NodeId;

namespace {

std::shared_ptr<ConvKernel> choose_kernel(Planner& p, const ConvDesc& desc) {
  const Level level = p.options().level;
  for (const ConvAlgorithm algorithm : kConvAlgorithms) {
    const std::string_view name = conv_algorithm_name(algorithm);
    const std::string_view refusal = conv_refusal(desc, level, algorithm);
    if (!refusal.empty()) {
      p.why(fmt::format("{} refused: {}", name, refusal));
      continue;
    }
    if (p.options().little_scratch && algorithm == ConvAlgorithm::Winograd) {
      p.why(fmt::format("{} refused: it takes too much scratch", name));
      continue;
    }
    if (auto kernel = ConvKernel::create(desc, level, algorithm)) {
      p.why(fmt::format("the best at {} that takes it", level_name(level)));
      return kernel;
    }
    p.why(fmt::format("{} refused: oneDNN has none for this", name));
  }
  return ConvKernel::create(desc, level);  // throws
}

// The convolution `id` of the picture of node `source`.
ConvDesc describe(const graph::Graph& g, NodeId id, NodeId source, Before before) {
  const auto& op = std::get<graph::Conv2d>(g.node(id).op);
  const graph::Type& x = g.node(source).type;
  const Shape& y = g.node(id).type.shape;
  const Shape& weight = g.node(g.node(id).inputs[1]).type.shape;
  return {.batch = x.shape[0],
          .height = x.shape[1],
          .width = x.shape[2],
          .in_channels = x.shape[3],
          .out_height = y[1],
          .out_width = y[2],
          .out_channels = y[3],
          .kernel_h = weight[2],
          .kernel_w = weight[3],
          .stride = op.stride,
          .pad_top = op.pad_top,
          .pad_left = op.pad_left,
          .pad_bottom = op.pad_bottom,
          .pad_right = op.pad_right,
          .groups = op.groups,
          .elem = elem_of(x.dtype),
          .before = before};
}

// A sum whose one operand only the convolution makes, and whose other is there before it.
struct Sum {
  NodeId node, other;
};

std::optional<Sum> sum_after(const Planner& p, NodeId id) {
  const graph::Graph& g = p.graph();
  if (graph::use_counts(g)[id] != 1) {
    return std::nullopt;
  }
  for (NodeId user = id + 1; user < g.nodes().size(); ++user) {
    const graph::Node& node = g.node(user);
    if (std::find(node.inputs.begin(), node.inputs.end(), id) == node.inputs.end()) {
      continue;
    }
    const auto* op = std::get_if<graph::Binary>(&node.op);
    if (op == nullptr || op->kind != graph::BinaryKind::Add) {
      return std::nullopt;
    }
    const NodeId other = node.inputs[0] == id ? node.inputs[1] : node.inputs[0];
    const graph::Type& type = g.node(other).type;
    const bool alike = type == node.type && g.node(id).type == node.type;
    return alike && other < id && !p.is_param(other) ? std::optional(Sum{user, other})
                                                     : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

bool folds_into_convolutions(const Planner& p, NodeId id) {
  const graph::Graph& g = p.graph();
  const auto& op = std::get<graph::Upsample>(g.node(id).op);
  if (op.factor != 2 || g.node(id).type.dtype != DType::BF16) {
    return false;
  }
  std::uint32_t folded = 0;
  for (NodeId user = id + 1; user < g.nodes().size(); ++user) {
    const graph::Node& node = g.node(user);
    if (!std::holds_alternative<graph::Conv2d>(node.op) || node.inputs[0] != id) {
      continue;
    }
    const ConvDesc desc = describe(g, user, g.node(id).inputs[0], Before::Doubling);
    folded += conv_refusal(desc, p.options().level, ConvAlgorithm::WinogradBf16).empty() ? 1 : 0;
  }
  return folded > 0 && folded == graph::use_counts(g)[id];
}

void plan_conv(Planner& p, NodeId id, const graph::Conv2d& op) {
  const auto& in = p.graph().node(id).inputs;
  const bool doubled = std::holds_alternative<graph::Upsample>(p.graph().node(in[0]).op) &&
                       folds_into_convolutions(p, in[0]);
  const NodeId source = doubled ? p.graph().node(in[0]).inputs[0] : in[0];
  const View x = p.dense(source);
  check(p.is_param(in[1]), ErrorCode::Unsupported,
        "conv2d: the cpu backend needs a parameter as weight, not a computed value");
  const Shape& weight = p.graph().node(in[1]).type.shape;
  const View bias = op.bias ? p.f32_vector(in[2]) : x;
  const std::optional<Sum> sum = sum_after(p, id);
  const View residual = sum ? p.dense(sum->other) : x;
  const Target target(p, p.result(sum ? sum->node : id));
  const View y = target.y;
  if (sum) {
    p.take(sum->node);
    p.why("adds its residual");
  }
  const ConvDesc desc =
      describe(p.graph(), id, source, doubled ? Before::Doubling : Before::Nothing);
  constexpr std::int64_t kMaxExtent = 1 << 20;
  for (const std::int64_t extent :
       {desc.batch, desc.height, desc.width, desc.in_channels, desc.out_height, desc.out_width,
        desc.out_channels, desc.kernel_h, desc.kernel_w, desc.stride, desc.pad_top, desc.pad_left,
        desc.pad_bottom, desc.pad_right}) {
    check(extent <= kMaxExtent, ErrorCode::Unsupported, "conv2d: {} is more than {}", extent,
          kMaxExtent);
  }
  const std::shared_ptr<ConvKernel> kernel = choose_kernel(p, desc);
  WeightJob job;
  job.kind = WeightJob::Kind::Conv;
  job.conv = kernel;
  View packed;
  packed.buffer = p.packed_param(in[1], std::move(job), kernel->layout(), kernel->packed_bytes());
  p.use_scratch(kernel->scratch_bytes());
  const double flops = 2.0 * static_cast<double>(y.shape.elements()) *
                       static_cast<double>(weight[1] * weight[2] * weight[3]);
  p.add_step(
      id, std::string(kernel->name()),
      [=, has_bias = op.bias, sums = sum.has_value()](const Run& run) {
        const ConvData data{.x = element(run, x, x.offset),
                            .packed = run.bytes(packed.buffer, 0),
                            .bias = has_bias ? run.at<float>(bias) : nullptr,
                            .residual = sums ? element(run, residual, residual.offset) : nullptr,
                            .y = element(run, y, y.offset)};
        run.threads->run(kernel->tasks(), [&](std::int64_t task, int thread) {
          kernel->run(data, task, run.scratch[thread]);
        });
      },
      {&x, &y, &bias, &packed, &residual}, flops);
  target.finish(p, id);
}

}  // namespace difflet::cpu
