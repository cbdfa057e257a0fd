// Products: Linear with a packed parameter (or packed on the fly) and MatMul through the same
// kernels.
#include <algorithm>
#include <array>
#include <utility>

#include "difflet/backends/cpu/planner.h"
#include "difflet/base/error.h"

namespace difflet::cpu {
namespace {

using graph::NodeId;

const LinearKernel& choose_kernel(Planner& p, const LinearDesc& desc) {
  const LinearKernelList list = linear_kernels();
  const char* last = "";
  for (std::size_t i = 0; i < list.size; ++i) {
    const LinearKernel& k = *list.items[i];
    const bool other = k.bytes != (desc.w == Elem::I8) || k.products != desc.products;
    if (other || k.level > p.options().level) {
      continue;
    }
    const char* reason = k.refuse(desc);
    if (reason == nullptr) {
      p.why(fmt::format("the best at {} that takes it", level_name(p.options().level)));
      return k;
    }
    p.why(fmt::format("{} refused: {}", k.name, reason));
    last = reason;
  }
  fail(ErrorCode::Unsupported, "no linear kernel takes weights [{}, {}]: {}", desc.n, desc.k, last);
}

ConstRows const_rows(const Run& run, const View& v, std::int64_t offset, std::int64_t stride) {
  const auto bytes = static_cast<std::int64_t>(dtype_bytes(v.dtype));
  return {run.bytes(v.buffer, offset * bytes), stride, elem_of(v.dtype)};
}

Rows out_rows(const Run& run, const View& v, std::int64_t offset, std::int64_t stride) {
  const ConstRows r = const_rows(run, v, offset, stride);
  return {const_cast<void*>(r.data), r.stride, r.elem};
}

// The kernel's tasks over one block of rows.
void run_linear(const Run& run, const LinearKernel& kernel, const LinearArgs& args) {
  const std::int64_t tasks = kernel.tasks(args, run.threads->size());
  run.threads->run(tasks, [&](std::int64_t task, int thread) {
    kernel.run(args, task, tasks, run.scratch[thread]);
  });
}

// The row axes of a view, without its last axis.
View row_axes(const View& v) {
  View r = v;
  r.shape = Shape(Dims(v.shape.dims().begin(), v.shape.dims().end() - 1));
  r.strides.resize(r.shape.rank());
  return r;
}

// Operands of a Linear in the order of LinearOperands::rows.
enum RowOperand : std::size_t { kX, kY, kMul, kResidual };

struct LinearOperands {
  std::array<View, 4> rows;  // by RowOperand; absent ones repeat y
  View scale, smooth, bias;  // f32, the same
  View weight, packed;
  bool has_scale = false, has_smooth = false;
  bool has_bias = false, has_mul = false, has_residual = false;
  bool stored = false;  // the weight is a parameter, packed when it is loaded
};

// The multiplier broadcast to the result, its last axis contiguous.
View multiplier(Planner& p, NodeId id, NodeId operand) {
  const Shape& shape = p.graph().node(id).type.shape;
  View mul = broadcast_to(p.rows(operand), shape);
  if (mul.inner_stride() == 0 && shape.dim(-1) > 1) {
    const View full = p.temporary(mul.dtype, shape);
    p.copy(id, mul, full);
    return full;
  }
  return mul;
}

LinearOperands linear_operands(Planner& p, NodeId id, const graph::Linear& op) {
  const auto& in = p.graph().node(id).inputs;
  LinearOperands o;
  std::size_t next = 2;
  o.has_scale = op.quant != graph::WeightQuant::None;
  o.has_smooth = op.smooth;
  o.has_bias = op.bias;
  o.has_mul = op.mul;
  o.has_residual = op.residual;
  o.rows[kX] = p.rows(in[0]);
  if (o.has_scale) {
    o.scale = p.f32_vector(in[next++]);
  }
  if (op.smooth) {
    o.smooth = p.f32_vector(in[next++]);
  }
  if (op.bias) {
    o.bias = p.f32_vector(in[next++]);
  }
  if (op.mul) {
    o.rows[kMul] = multiplier(p, id, in[next++]);
  }
  if (op.residual) {
    o.rows[kResidual] = p.rows(in[next++]);
  }
  o.rows[kY] = p.result(id);
  for (const auto& [present, i] : {std::pair(op.mul, kMul), std::pair(op.residual, kResidual)}) {
    if (!present) {
      o.rows[i] = o.rows[kY];
    }
  }
  for (const auto& [present, view] :
       {std::pair(o.has_scale, &o.scale), std::pair(o.has_smooth, &o.smooth),
        std::pair(o.has_bias, &o.bias)}) {
    if (!present) {
      *view = o.rows[kY];
    }
  }
  return o;
}

// Packed at load when it is a parameter, in every run otherwise.
void place_weight(Planner& p, NodeId weight, const LinearKernel& kernel, const LinearDesc& desc,
                  LinearOperands& o) {
  const std::size_t bytes = kernel.packed_bytes(desc);
  o.stored = p.is_param(weight);
  if (o.stored) {
    WeightJob job;
    job.kind = WeightJob::Kind::Linear;
    job.kernel = &kernel;
    job.desc = desc;
    o.packed.buffer = p.packed_param(weight, std::move(job), kernel.name, bytes);
    o.weight = o.rows[kY];
  } else {
    o.weight = p.dense(weight);
    o.packed = p.temporary(DType::I32, Shape{static_cast<std::int64_t>((bytes + 3) / 4)});
  }
}

// One kernel call for each block of rows that all operands walk with one stride.
void run_blocks(const Run& run, const LinearKernel& kernel, const LinearArgs& shape_args,
                const LinearOperands& o, const LoopNest& nest) {
  LinearArgs args = shape_args;
  args.packed = run.bytes(o.packed.buffer, 0);
  args.scale = o.has_scale ? run.at<float>(o.scale) : nullptr;
  args.smooth = o.has_smooth ? run.at<float>(o.smooth) : nullptr;
  args.bias = o.has_bias ? run.at<float>(o.bias) : nullptr;
  for (const auto& start : nest.offset) {
    for (std::int64_t r = 0; r < nest.rows; ++r) {
      const auto at = [&](RowOperand i) { return start[i] + r * nest.row_stride[i]; };
      args.x = const_rows(run, o.rows[kX], at(kX), nest.step[kX]);
      args.y = out_rows(run, o.rows[kY], at(kY), nest.step[kY]);
      if (o.has_mul) {
        args.mul = const_rows(run, o.rows[kMul], at(kMul), nest.step[kMul]);
      }
      if (o.has_residual) {
        args.residual = const_rows(run, o.rows[kResidual], at(kResidual), nest.step[kResidual]);
      }
      run_linear(run, kernel, args);
    }
  }
}

}  // namespace

void plan_linear(Planner& p, NodeId id, const graph::Linear& op) {
  const auto& in = p.graph().node(id).inputs;
  const graph::Type& weight = p.graph().node(in[1]).type;  // [N, K]
  LinearOperands o = linear_operands(p, id, op);
  const LinearDesc desc{
      .n = weight.shape[0],
      .k = weight.shape[1],
      .x = elem_of(o.rows[kX].dtype),
      .w = weight_elem_of(weight.dtype),
      .y = elem_of(o.rows[kY].dtype),
      .products = op.quant == graph::WeightQuant::W8A8 ? Products::Bytes : Products::Floats};
  const LinearKernel& kernel = choose_kernel(p, desc);
  place_weight(p, in[1], kernel, desc, o);

  // x has another last axis than the others, so the rows alone are walked together. The innermost
  // merged run is the M of a kernel call.
  std::array<View, 4> axes;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    axes[i] = row_axes(o.rows[i]);
  }
  const View* const operands[] = {&axes[0], &axes[1], &axes[2], &axes[3]};
  const LoopNest nest = collapse(axes[kY].shape, operands, Width::Merge);
  LinearArgs args;
  args.m = nest.width;
  args.n = desc.n;
  args.k = desc.k;
  args.act = act_of(op.act);
  args.x.elem = desc.x;
  args.y.elem = desc.y;
  p.use_scratch(kernel.scratch_bytes(args, p.options().threads));
  const double flops =
      2.0 * static_cast<double>(o.rows[kY].shape.elements()) * static_cast<double>(desc.k);
  p.add_step(
      id, kernel.name,
      [=, &kernel](const Run& run) {
        if (!o.stored) {
          const auto bytes = static_cast<std::int64_t>(dtype_bytes(o.weight.dtype));
          kernel.pack(desc, run.bytes(o.weight.buffer, o.weight.offset * bytes), desc.w, 0, desc.n,
                      run.bytes(o.packed.buffer, 0));
        }
        run_blocks(run, kernel, args, o, nest);
      },
      {&o.rows[kX], &o.rows[kY], &o.rows[kMul], &o.rows[kResidual], &o.scale, &o.smooth, &o.bias,
       &o.weight, &o.packed},
      flops);
}

namespace {

// The second factor [..., K, N] as the kernels take it: [..., N, K], contiguous.
View transposed_factor(Planner& p, NodeId id, NodeId operand) {
  const View b = p.view(operand);
  const std::size_t rank = b.shape.rank();
  std::vector<std::int64_t> swap(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    swap[i] = static_cast<std::int64_t>(i);
  }
  std::swap(swap[rank - 1], swap[rank - 2]);
  View bt = transposed(b, swap);
  if (bt.contiguous()) {
    return bt;
  }
  const View dense = p.temporary(bt.dtype, bt.shape);
  p.copy(id, bt, dense);
  return dense;
}

// All axes but the last two, broadcast to `batch`.
View batch_axes(const View& v, const Shape& batch) {
  View r = v;
  r.shape = Shape(Dims(v.shape.dims().begin(), v.shape.dims().end() - 2));
  r.strides.resize(r.shape.rank());
  return broadcast_to(r, batch);
}

}  // namespace

void plan_matmul(Planner& p, NodeId id, const graph::MatMul& /*op*/) {
  const auto& in = p.graph().node(id).inputs;
  const View a = p.rows(in[0]);  // [..., M, K]
  const View bt = transposed_factor(p, id, in[1]);
  const View y = p.result(id);
  const LinearDesc desc{.n = y.shape.dim(-1),
                        .k = a.shape.dim(-1),
                        .x = elem_of(a.dtype),
                        .w = elem_of(bt.dtype),
                        .y = elem_of(y.dtype)};
  const LinearKernel& kernel = choose_kernel(p, desc);
  const View packed = p.temporary(
      DType::I32, Shape{static_cast<std::int64_t>((kernel.packed_bytes(desc) + 3) / 4)});
  // Loop over the batch axes; each item is one product.
  const Shape batch(Dims(y.shape.dims().begin(), y.shape.dims().end() - 2));
  const View ab = batch_axes(a, batch);
  const View bb = batch_axes(bt, batch);
  const View yb = batch_axes(y, batch);
  const View* const operands[] = {&ab, &bb, &yb};
  const LoopNest nest = collapse(batch, operands, Width::Merge);
  LinearArgs shape_args;
  shape_args.m = y.shape.dim(-2);
  shape_args.n = desc.n;
  shape_args.k = desc.k;
  shape_args.x.elem = desc.x;
  shape_args.y.elem = desc.y;
  p.use_scratch(kernel.scratch_bytes(shape_args, p.options().threads));
  const std::int64_t a_row = a.strides[a.strides.size() - 2];
  const std::int64_t y_row = y.strides[y.strides.size() - 2];
  p.add_step(
      id, fmt::format("matmul.{}", kernel.name),
      [=, &kernel](const Run& run) {
        LinearArgs args = shape_args;
        args.packed = run.bytes(packed.buffer, 0);
        for (const auto& start : nest.offset) {
          for (std::int64_t r = 0; r < nest.rows; ++r) {
            for (std::int64_t w = 0; w < nest.width; ++w) {
              const auto at = [&](std::size_t i) {
                return start[i] + r * nest.row_stride[i] + w * nest.step[i];
              };
              kernel.pack(desc, const_rows(run, bt, at(1), 0).data, desc.w, 0, desc.n,
                          run.bytes(packed.buffer, 0));
              args.x = const_rows(run, a, at(0), a_row);
              args.y = out_rows(run, y, at(2), y_row);
              run_linear(run, kernel, args);
            }
          }
        }
      },
      {&a, &bt, &y, &packed},
      2.0 * static_cast<double>(y.shape.elements()) * static_cast<double>(desc.k));
}

}  // namespace difflet::cpu
