// Products: Linear with a packed parameter (or packed on the fly) and MatMul through the same kernels.
#include <algorithm>

#include "difflet/backends/cpu/planner.h"
#include "difflet/base/error.h"

namespace difflet::cpu {
namespace {

using graph::NodeId;

const LinearKernel& choose_kernel(Planner& p, const LinearDesc& desc) {
  const LinearKernelList list = linear_kernels();
  for (std::size_t i = 0; i < list.size; ++i) {
    const LinearKernel& k = *list.items[i];
    if (k.level > p.options().level) {
      continue;
    }
    const char* reason = k.refuse(desc);
    if (reason == nullptr) {
      return k;
    }
    p.note(fmt::format("{} refused: {}", k.name, reason));
  }
  fail(ErrorCode::Internal, "no linear kernel takes n={} k={}", desc.n, desc.k);
}

struct Operand {
  View view;
  bool present = false;
};

ConstRows const_rows(const Run& run, const View& v, std::int64_t offset, std::int64_t stride) {
  const auto bytes = static_cast<std::int64_t>(dtype_bytes(v.dtype));
  return {run.bytes(v.buffer, offset * bytes), stride, elem_of(v.dtype)};
}

// The kernel's tasks over one block of rows.
void run_linear(const Run& run, const LinearKernel& kernel, const LinearArgs& args) {
  const std::int64_t tasks = kernel.tasks(args, run.threads->size());
  run.threads->run(tasks, [&](std::int64_t task, int thread) {
    kernel.run(args, task, tasks, run.scratch[thread]);
  });
}

}  // namespace

void plan_linear(Planner& p, NodeId id, const graph::Linear& op) {
  const auto& in = p.graph().node(id).inputs;
  const graph::Type& out = p.graph().node(id).type;
  const Shape weight_shape = p.graph().node(in[1]).type.shape;  // [N, K]
  std::size_t next = 2;
  const View x = p.rows(in[0]);
  Operand bias;
  Operand mul;
  Operand residual;
  if (op.bias) {
    bias = {p.f32_vector(in[next++]), true};
  }
  if (op.mul) {
    mul = {broadcast_to(p.rows(in[next++]), out.shape), true};
    if (mul.view.inner_stride() == 0 && out.shape.dim(-1) > 1) {
      const View full = p.temporary(mul.view.dtype, out.shape);
      p.copy(id, mul.view, full);
      mul.view = full;
    }
  }
  if (op.residual) {
    residual = {p.rows(in[next++]), true};
  }
  const View y = p.result(id);
  LinearDesc desc{.n = weight_shape[0],
                  .k = weight_shape[1],
                  .x = elem_of(x.dtype),
                  .w = elem_of(p.graph().node(in[1]).type.dtype),
                  .y = elem_of(y.dtype)};
  const LinearKernel& kernel = choose_kernel(p, desc);
  const std::size_t packed_bytes = kernel.packed_bytes(desc);
  View packed;
  View weight;  // when it is computed in the graph
  const bool stored = p.is_param(in[1]);
  if (stored) {
    WeightJob job;
    job.kind = WeightJob::Kind::Linear;
    job.kernel = &kernel;
    job.desc = desc;
    packed.buffer = p.packed_param(in[1], job, packed_bytes);
  } else {
    weight = p.dense(in[1]);
    packed = p.temporary(DType::I32, Shape{static_cast<std::int64_t>((packed_bytes + 3) / 4)});
  }

  // The rows of x, mul, residual and y, walked together; x has another last axis than the others.
  const Dims lead(out.shape.dims().begin(), out.shape.dims().end() - 1);
  const auto row_view = [&](const View& v) {
    View r = v;
    r.shape = Shape(lead);
    r.strides.pop_back();
    return r;
  };
  const View xr = row_view(x);
  const View yr = row_view(y);
  const View mr = mul.present ? row_view(mul.view) : yr;
  const View rr = residual.present ? row_view(residual.view) : yr;
  const View* const operands[] = {&xr, &yr, &mr, &rr};
  Shape loop = Shape(lead);
  LoopNest nest = collapse(loop, operands, Width::Merge);
  // With Width::Merge the innermost run is the "width": these are the rows of one kernel call.
  struct Block {
    std::vector<std::int64_t> offset;
  };
  std::vector<std::vector<std::int64_t>> blocks;
  for (const auto& start : nest.offset) {
    for (std::int64_t r = 0; r < nest.rows; ++r) {
      std::vector<std::int64_t> o = start;
      for (std::size_t i = 0; i < o.size(); ++i) {
        o[i] += r * nest.row_stride[i];
      }
      blocks.push_back(std::move(o));
    }
  }
  LinearArgs shape_args;
  shape_args.m = nest.width;
  shape_args.n = desc.n;
  shape_args.k = desc.k;
  shape_args.act = act_of(op.act);
  shape_args.x.elem = desc.x;
  shape_args.y.elem = desc.y;
  p.use_scratch(kernel.scratch_bytes(shape_args, p.options().threads));
  const double flops = 2.0 * static_cast<double>(out.shape.elements()) * static_cast<double>(desc.k);
  p.add_step(
      id, kernel.name,
      [=, &kernel, steps = nest.step](const Run& run) {
        if (!stored) {
          kernel.pack(desc, run.bytes(weight.buffer, weight.offset * static_cast<std::int64_t>(
                                                                         dtype_bytes(weight.dtype))),
                      elem_of(weight.dtype), 0, desc.n, run.bytes(packed.buffer, 0));
        }
        LinearArgs args = shape_args;
        args.packed = run.bytes(packed.buffer, 0);
        args.bias = bias.present ? run.at<float>(bias.view) : nullptr;
        for (const auto& o : blocks) {
          args.x = const_rows(run, x, o[0], steps[0]);
          const ConstRows yw = const_rows(run, y, o[1], steps[1]);
          args.y = {const_cast<void*>(yw.data), yw.stride, yw.elem};
          args.mul = mul.present ? const_rows(run, mul.view, o[2], steps[2]) : ConstRows{};
          args.residual = residual.present ? const_rows(run, residual.view, o[3], steps[3]) : ConstRows{};
          run_linear(run, kernel, args);
        }
      },
      {&x, &y, mul.present ? &mul.view : &y, residual.present ? &residual.view : &y,
       bias.present ? &bias.view : &y, stored ? &y : &weight, &packed},
      flops);
}

void plan_matmul(Planner& p, NodeId id, const graph::MatMul& /*op*/) {
  const auto& in = p.graph().node(id).inputs;
  const View a = p.rows(in[0]);  // [..., M, K]
  // The kernels take the second factor as [N, K].
  const View b = p.view(in[1]);
  const std::size_t rank = b.shape.rank();
  std::vector<std::int64_t> swap(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    swap[i] = static_cast<std::int64_t>(i);
  }
  std::swap(swap[rank - 1], swap[rank - 2]);
  View bt = transposed(b, swap);
  if (!bt.contiguous()) {
    const View dense = p.temporary(bt.dtype, bt.shape);
    p.copy(id, bt, dense);
    bt = dense;
  }
  const View y = p.result(id);
  const LinearDesc desc{.n = y.shape.dim(-1),
                        .k = a.shape.dim(-1),
                        .x = elem_of(a.dtype),
                        .w = elem_of(b.dtype),
                        .y = elem_of(y.dtype)};
  const LinearKernel& kernel = choose_kernel(p, desc);
  const View packed = p.temporary(
      DType::I32, Shape{static_cast<std::int64_t>((kernel.packed_bytes(desc) + 3) / 4)});
  // Loop over the batch axes; each item is one product.
  const Dims batch(y.shape.dims().begin(), y.shape.dims().end() - 2);
  const auto batch_view = [&](const View& v) {
    View r = v;
    r.shape = Shape(Dims(v.shape.dims().begin(), v.shape.dims().end() - 2));
    r.strides.resize(r.shape.rank());
    return broadcast_to(r, Shape(batch));
  };
  const View ab = batch_view(a);
  const View bb = batch_view(bt);
  const View yb = batch_view(y);
  const View* const operands[] = {&ab, &bb, &yb};
  const LoopNest nest = collapse(Shape(batch), operands, Width::Merge);
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
              const ConstRows yw = const_rows(run, y, at(2), y_row);
              args.y = {const_cast<void*>(yw.data), yw.stride, yw.elem};
              run_linear(run, kernel, args);
            }
          }
        }
      },
      {&a, &bt, &y, &packed},
      2.0 * static_cast<double>(y.shape.elements()) * static_cast<double>(desc.k));
}

}  // namespace difflet::cpu
