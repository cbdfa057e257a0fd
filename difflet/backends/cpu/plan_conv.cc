// Convolution steps.
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
    if (auto kernel = ConvKernel::create(desc, level, algorithm)) {
      p.why(fmt::format("the best at {} that takes it", level_name(level)));
      return kernel;
    }
    p.why(fmt::format("{} refused: oneDNN has none for this", name));
  }
  return ConvKernel::create(desc, level);  // throws
}

}  // namespace

void plan_conv(Planner& p, NodeId id, const graph::Conv2d& op) {
  const auto& in = p.graph().node(id).inputs;
  const View x = p.dense(in[0]);
  check(p.is_param(in[1]), ErrorCode::Unsupported,
        "conv2d: the cpu backend needs a parameter as weight, not a computed value");
  const Shape& weight = p.graph().node(in[1]).type.shape;
  const View bias = op.bias ? p.f32_vector(in[2]) : x;
  View y = p.result(id);
  const View placed = y;
  if (!y.contiguous()) {
    y = p.temporary(y.dtype, y.shape);
  }
  const ConvDesc desc{.batch = x.shape[0],
                      .height = x.shape[1],
                      .width = x.shape[2],
                      .in_channels = x.shape[3],
                      .out_height = y.shape[1],
                      .out_width = y.shape[2],
                      .out_channels = y.shape[3],
                      .kernel_h = weight[2],
                      .kernel_w = weight[3],
                      .stride = op.stride,
                      .pad_top = op.pad_top,
                      .pad_left = op.pad_left,
                      .pad_bottom = op.pad_bottom,
                      .pad_right = op.pad_right,
                      .groups = op.groups,
                      .elem = elem_of(x.dtype)};
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
      [=, has_bias = op.bias](const Run& run) {
        run.threads->run(kernel->tasks(), [&](std::int64_t task, int thread) {
          kernel->run(element(run, x, x.offset), run.bytes(packed.buffer, 0),
                      has_bias ? run.at<float>(bias) : nullptr, element(run, y, y.offset), task,
                      run.scratch[thread]);
        });
      },
      {&x, &y, &bias, &packed}, flops);
  if (placed.buffer != y.buffer) {
    p.copy(id, y, placed);
  }
}

}  // namespace difflet::cpu
