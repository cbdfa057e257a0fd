// Norms, softmax and rotary embedding: row kernels over the collapsed rows of their operands.
#include <algorithm>

#include "difflet/backends/cpu/planner.h"
#include "difflet/base/error.h"

namespace difflet::cpu {
namespace {

using graph::NodeId;

// Rows handed to one task: enough work to be worth a hand-over, small enough to balance.
constexpr std::int64_t kTaskElements = 32768;

std::int64_t rows_per_task(std::int64_t width) {
  return std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, width));
}

template <typename F>
void for_row_tasks(const Run& run, std::int64_t rows, std::int64_t width, const F& f) {
  const std::int64_t step = rows_per_task(width);
  run.threads->run((rows + step - 1) / step, [&](std::int64_t task, int) {
    f(task * step, std::min(rows, (task + 1) * step));
  });
}

std::int64_t bytes_of(const View& v) { return static_cast<std::int64_t>(dtype_bytes(v.dtype)); }

ConstRows const_rows(const Run& run, const View& v, std::int64_t offset, std::int64_t stride) {
  return {run.bytes(v.buffer, offset * bytes_of(v)), stride, elem_of(v.dtype)};
}

Rows out_rows(const Run& run, const View& v, std::int64_t offset, std::int64_t stride) {
  return {run.bytes(v.buffer, offset * bytes_of(v)), stride, elem_of(v.dtype)};
}

// A [D] operand as the kernels read it, or absent.
ConstRows vector_operand(const Run& run, const View* v) {
  return v == nullptr ? ConstRows{} : const_rows(run, *v, v->offset, 0);
}

// Whether a modulation operand is one row for all the rows of a block.
struct Modulation {
  View scale, shift;  // broadcast to x's shape
  bool present = false;
};

Modulation modulation(Planner& p, NodeId id, NodeId scale, NodeId shift) {
  const Shape& shape = p.graph().node(id).type.shape;
  Modulation m{.scale = broadcast_to(p.rows(scale), shape),
               .shift = broadcast_to(p.rows(shift), shape),
               .present = true};
  for (View* v : {&m.scale, &m.shift}) {
    if (v->inner_stride() != 1 && shape.dim(-1) > 1) {
      const View full = p.temporary(v->dtype, shape);
      p.copy(id, *v, full);
      *v = full;
    }
  }
  return m;
}

}  // namespace

void plan_layer_norm(Planner& p, NodeId id, const graph::LayerNorm& op) {
  const auto& in = p.graph().node(id).inputs;
  const View x = p.rows(in[0]);
  std::size_t next = 1;
  View weight;
  View bias;
  if (op.affine) {
    weight = p.dense(in[next]);
    bias = p.dense(in[next + 1]);
    next += 2;
  }
  Modulation mod;
  if (op.modulated) {
    mod = modulation(p, id, in[next], in[next + 1]);
  }
  const View y = p.result(id);
  const View& scale = op.modulated ? mod.scale : y;
  const View& shift = op.modulated ? mod.shift : y;
  const View* const operands[] = {&x, &y, &scale, &shift};
  const LoopNest nest = collapse(y.shape, operands, Width::LastAxis);
  const RowwiseKernels* kernels = &p.rowwise();
  p.add_step(id, op.modulated ? "layer_norm.modulated" : "layer_norm",
             [=, scale = View(scale), shift = View(shift), eps = op.eps, affine = op.affine,
              modulated = op.modulated](const Run& run) {
               NormArgs args;
               args.rows = nest.rows;
               args.width = nest.width;
               args.eps = static_cast<float>(eps);
               args.weight = vector_operand(run, affine ? &weight : nullptr);
               args.bias = vector_operand(run, affine ? &bias : nullptr);
               for (const auto& o : nest.offset) {
                 args.x = const_rows(run, x, o[0], nest.row_stride[0]);
                 args.y = out_rows(run, y, o[1], nest.row_stride[1]);
                 if (modulated) {
                   args.scale = const_rows(run, scale, o[2], nest.row_stride[2]);
                   args.shift = const_rows(run, shift, o[3], nest.row_stride[3]);
                 }
                 for_row_tasks(run, args.rows, args.width, [&](std::int64_t r0, std::int64_t r1) {
                   kernels->layer_norm(args, r0, r1);
                 });
               }
             },
             {&x, &y, &scale, &shift, op.affine ? &weight : &y, op.affine ? &bias : &y});
}

void plan_rms_norm(Planner& p, NodeId id, const graph::RmsNorm& op) {
  const auto& in = p.graph().node(id).inputs;
  const View x = p.rows(in[0]);
  const View weight = op.weight ? p.dense(in[1]) : x;
  const View y = p.result(id);
  const View* const operands[] = {&x, &y};
  const LoopNest nest = collapse(y.shape, operands, Width::LastAxis);
  const RowwiseKernels* kernels = &p.rowwise();
  p.add_step(id, "rms_norm",
             [=, eps = op.eps, has_weight = op.weight](const Run& run) {
               NormArgs args;
               args.rows = nest.rows;
               args.width = nest.width;
               args.eps = static_cast<float>(eps);
               args.weight = vector_operand(run, has_weight ? &weight : nullptr);
               for (const auto& o : nest.offset) {
                 args.x = const_rows(run, x, o[0], nest.row_stride[0]);
                 args.y = out_rows(run, y, o[1], nest.row_stride[1]);
                 for_row_tasks(run, args.rows, args.width, [&](std::int64_t r0, std::int64_t r1) {
                   kernels->rms_norm(args, r0, r1);
                 });
               }
             },
             {&x, &y, &weight});
}

void plan_softmax(Planner& p, NodeId id, const graph::Softmax& /*op*/) {
  const View x = p.rows(p.graph().node(id).inputs[0]);
  const View y = p.result(id);
  const View* const operands[] = {&x, &y};
  const LoopNest nest = collapse(y.shape, operands, Width::LastAxis);
  const RowwiseKernels* kernels = &p.rowwise();
  p.add_step(id, "softmax",
             [=](const Run& run) {
               for (const auto& o : nest.offset) {
                 const ConstRows xr = const_rows(run, x, o[0], nest.row_stride[0]);
                 const Rows yr = out_rows(run, y, o[1], nest.row_stride[1]);
                 for_row_tasks(run, nest.rows, nest.width, [&](std::int64_t r0, std::int64_t r1) {
                   kernels->softmax(xr, yr, nest.width, r0, r1);
                 });
               }
             },
             {&x, &y});
}

// x [B, L, H, D]: one call a batch item.
void plan_rope(Planner& p, NodeId id, const graph::Rope& op) {
  const auto& in = p.graph().node(id).inputs;
  const View x = p.rows(in[0]);
  const View cos = p.dense(in[1]);
  const View sin = p.dense(in[2]);
  const View weight = op.norm ? p.dense(in[3]) : x;
  const View y = p.result(id);
  RopeArgs shape_args;
  shape_args.tokens = x.shape[1];
  shape_args.heads = x.shape[2];
  shape_args.width = x.shape[3];
  shape_args.rows = shape_args.tokens * shape_args.heads;
  shape_args.x_token = x.strides[1];
  shape_args.y_token = y.strides[1];
  shape_args.eps = static_cast<float>(op.eps);
  shape_args.pairs = op.pairs == graph::RopePairs::Half ? RopePairs::Half : RopePairs::Interleaved;
  const RowwiseKernels* kernels = &p.rowwise();
  p.add_step(id, op.norm ? "rope.normed" : "rope",
             [=, norm = op.norm](const Run& run) {
               RopeArgs args = shape_args;
               args.cos = run.at<float>(cos);
               args.sin = run.at<float>(sin);
               args.norm_weight = vector_operand(run, norm ? &weight : nullptr);
               for (std::int64_t b = 0; b < x.shape[0]; ++b) {
                 args.x = const_rows(run, x, x.offset + b * x.strides[0], x.strides[2]);
                 args.y = out_rows(run, y, y.offset + b * y.strides[0], y.strides[2]);
                 for_row_tasks(run, args.rows, args.width, [&](std::int64_t r0, std::int64_t r1) {
                   kernels->rope(args, r0, r1);
                 });
               }
             },
             {&x, &y, &cos, &sin, &weight});
}

namespace {

// Pixels of one statistics task: fixed, so that sums do not depend on the number of threads.
constexpr std::int64_t kGroupNormPixels = 256;

std::int64_t statistics_tasks(std::int64_t pixels) {
  return (pixels + kGroupNormPixels - 1) / kGroupNormPixels;
}

// Mean and mean squared deviation of each group of batch item b: stats [groups, 2]. `sums` is room for
// [tasks, groups, 2].
void take_statistics(const Run& run, const RowwiseKernels& kernels, const GroupNormArgs& args,
                     std::int64_t b, double* sums, double* stats) {
  const std::int64_t tasks = statistics_tasks(args.pixels);
  const std::int64_t groups = args.groups;
  std::fill(sums, sums + tasks * groups * 2, 0.0);
  run.threads->run(tasks, [&](std::int64_t c, int) {
    const std::int64_t p0 = c * kGroupNormPixels;
    kernels.group_norm_sums(args, b, p0, std::min(args.pixels, p0 + kGroupNormPixels),
                            sums + c * groups * 2);
  });
  const std::int64_t channels = args.channels / groups;
  const auto count = static_cast<double>(args.pixels * channels);
  for (std::int64_t g = 0; g < groups; ++g) {
    double sum = 0;
    double squares = 0;
    for (std::int64_t c = 0; c < tasks; ++c) {
      sum += sums[(c * groups + g) * 2];
      squares += sums[(c * groups + g) * 2 + 1];
    }
    const double mean = sum / count;
    stats[g * 2] = mean;
    stats[g * 2 + 1] = std::max(0.0, squares / count - mean * mean);
  }
}

// y of batch item b from its statistics [groups, 2]; `mean_rstd` is room for as many.
void apply_statistics(const Run& run, const RowwiseKernels& kernels, const GroupNormArgs& args,
                      std::int64_t b, const double* stats, float* mean_rstd) {
  for (std::int64_t g = 0; g < args.groups; ++g) {
    mean_rstd[g * 2] = static_cast<float>(stats[g * 2]);
    mean_rstd[g * 2 + 1] =
        static_cast<float>(1.0 / std::sqrt(stats[g * 2 + 1] + static_cast<double>(args.eps)));
  }
  run.threads->run(statistics_tasks(args.pixels), [&](std::int64_t c, int) {
    const std::int64_t p0 = c * kGroupNormPixels;
    kernels.group_norm_apply(args, b, p0, std::min(args.pixels, p0 + kGroupNormPixels), mean_rstd);
  });
}

// Of x [B, ..., C].
GroupNormArgs group_args(const Shape& shape, std::int64_t groups) {
  GroupNormArgs args;
  args.batch = shape[0];
  args.channels = shape.dim(-1);
  args.pixels = shape.elements() / std::max<std::int64_t>(1, args.batch * args.channels);
  args.groups = groups;
  return args;
}

// Statistics [groups, 2] as the op gives and takes them, [groups, 4]: f32 with what is left above it.
void split_statistics(const double* stats, std::int64_t groups, float* parts) {
  for (std::int64_t i = 0; i < groups * 2; ++i) {
    float* part = parts + i / 2 * 4 + i % 2;
    part[0] = static_cast<float>(stats[i]);
    part[2] = static_cast<float>(stats[i] - static_cast<double>(part[0]));
  }
}

void join_statistics(const float* parts, std::int64_t groups, double* stats) {
  for (std::int64_t i = 0; i < groups * 2; ++i) {
    const float* part = parts + i / 2 * 4 + i % 2;
    stats[i] = static_cast<double>(part[0]) + static_cast<double>(part[2]);
  }
}

// Room for the sums of one batch item, f64 [tasks, groups, 2].
View sums_of(Planner& p, const GroupNormArgs& args) {
  return p.temporary(DType::I64, Shape{statistics_tasks(args.pixels), args.groups, 2});
}

}  // namespace

void plan_group_norm(Planner& p, NodeId id, const graph::GroupNorm& op) {
  const auto& in = p.graph().node(id).inputs;
  const View x = p.dense(in[0]);
  const View weight = p.f32_vector(in[1]);
  const View bias = p.f32_vector(in[2]);
  const Target target(p, p.result_over(id, in[0]));
  const View y = target.y;
  GroupNormArgs shape_args = group_args(x.shape, op.groups);
  shape_args.eps = static_cast<float>(op.eps);
  shape_args.act = act_of(op.act);
  const View sums = op.statistics ? p.dense(in[3]) : sums_of(p, shape_args);
  const View stats = p.temporary(DType::I64, Shape{op.groups, 2});  // f64
  const View mean_rstd = p.temporary(DType::F32, Shape{op.groups, 2});
  const RowwiseKernels* kernels = &p.rowwise();
  p.add_step(id, op.statistics ? "group_norm.given" : "group_norm",
             [=, given = op.statistics](const Run& run) {
               GroupNormArgs args = shape_args;
               args.x = const_rows(run, x, x.offset, args.channels);
               args.y = out_rows(run, y, y.offset, args.channels);
               args.weight = run.at<float>(weight);
               args.bias = run.at<float>(bias);
               for (std::int64_t b = 0; b < args.batch; ++b) {
                 auto* values = run.at<double>(stats);
                 if (given) {
                   join_statistics(run.at<float>(sums) + b * args.groups * 4, args.groups, values);
                 } else {
                   take_statistics(run, *kernels, args, b, run.at<double>(sums), values);
                 }
                 apply_statistics(run, *kernels, args, b, values, run.at<float>(mean_rstd));
               }
             },
             {&x, &y, &weight, &bias, &sums, &stats, &mean_rstd});
  target.finish(p, id);
}

void plan_group_statistics(Planner& p, NodeId id, const graph::GroupStatistics& op) {
  const View x = p.dense(p.graph().node(id).inputs[0]);
  const Target target(p, p.result(id));
  const View y = target.y;
  const GroupNormArgs shape_args = group_args(x.shape, op.groups);
  const View sums = sums_of(p, shape_args);
  const View stats = p.temporary(DType::I64, Shape{op.groups, 2});  // f64
  const RowwiseKernels* kernels = &p.rowwise();
  p.add_step(id, "group_statistics",
             [=](const Run& run) {
               GroupNormArgs args = shape_args;
               args.x = const_rows(run, x, x.offset, args.channels);
               for (std::int64_t b = 0; b < args.batch; ++b) {
                 auto* values = run.at<double>(stats);
                 take_statistics(run, *kernels, args, b, run.at<double>(sums), values);
                 split_statistics(values, args.groups, run.at<float>(y) + b * args.groups * 4);
               }
             },
             {&x, &y, &sums, &stats});
  target.finish(p, id);
}

}  // namespace difflet::cpu
