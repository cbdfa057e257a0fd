// Ops that move or make data, and reductions: plain loops, split over rows where they can be large.
#include <algorithm>
#include <cmath>
#include <limits>

#include "difflet/backends/cpu/planner.h"
#include "difflet/backends/cpu/scalar_walk.h"
#include "difflet/base/error.h"

namespace difflet::cpu {

using graph::NodeId;

void plan_rank_index(Planner& p, NodeId id, const graph::RankIndex& /*op*/) {
  const View y = p.result(id);
  p.add_step(id, "rank_index", [=](const Run& run) { store_integer(run, y, y.offset, 0); }, {&y});
}

void plan_iota(Planner& p, NodeId id, const graph::Iota& op) {
  const View y = p.result(id);
  const auto axis = static_cast<std::size_t>(op.axis);
  p.add_step(id, "iota",
             [=](const Run& run) {
               std::int64_t inner = 1;
               for (std::size_t i = axis + 1; i < y.shape.rank(); ++i) {
                 inner *= y.shape[i];
               }
               std::int64_t n = 0;
               walk(y.shape, {&y}, [&](const auto& e) {
                 const std::int64_t value = n++ / inner % y.shape[axis];
                 if (is_float(y.dtype)) {
                   store_float(run, y, e[0], static_cast<float>(value));
                 } else {
                   store_integer(run, y, e[0], value);
                 }
               });
             },
             {&y});
}

void plan_pad(Planner& p, NodeId id, const graph::Pad& op) {
  const View x = p.view(p.graph().node(id).inputs[0]);
  const View y = p.result(id);
  const auto axis = static_cast<std::size_t>(op.axis);
  const View middle = sliced(y, axis, op.low, x.shape[axis], 1);
  const View low = sliced(y, axis, 0, op.low, 1);
  const View high = sliced(y, axis, y.shape[axis] - op.high, op.high, 1);
  p.add_step(id, "pad",
             [=, value = op.value](const Run& run) {
               for (const View* edge : {&low, &high}) {
                 walk(edge->shape, {edge}, [&](const auto& e) {
                   if (is_float(y.dtype)) {
                     store_float(run, *edge, e[0], static_cast<float>(value));
                   } else {
                     store_integer(run, *edge, e[0], static_cast<std::int64_t>(value));
                   }
                 });
               }
               run_copy(run, x, middle);
             },
             {&x, &y});
}

// Rows of a table. An index outside it throws InvalidArgument.
void plan_gather(Planner& p, NodeId id, const graph::Gather& /*op*/) {
  const auto& in = p.graph().node(id).inputs;
  const View table = p.dense(in[0]);
  const View index = p.dense(in[1]);
  const Target target(p, p.result(id));
  const View y = target.y;
  const std::int64_t width = table.shape.elements() / std::max<std::int64_t>(1, table.shape[0]);
  View read = table;  // as many rows as there are indices
  read.shape = Shape{std::min(table.shape[0], index.shape.elements()), width};
  read.strides = contiguous_strides(read.shape);
  p.add_step(id, "gather",
             [=](const Run& run) {
               const std::size_t bytes = static_cast<std::size_t>(width) * dtype_bytes(y.dtype);
               const std::int64_t count = index.shape.elements();
               for (std::int64_t i = 0; i < count; ++i) {
                 const std::int64_t row = load_integer(run, index, index.offset + i);
                 check(row >= 0 && row < table.shape[0], ErrorCode::InvalidArgument,
                       "gather: index {} at position {} is outside the table {}", row, i,
                       table.shape.str());
                 std::memcpy(element(run, y, y.offset + i * width),
                             element(run, table, table.offset + row * width), bytes);
               }
             },
             {&read, &index, &y});
  target.finish(p, id);
}

void plan_dynamic_slice(Planner& p, NodeId id, const graph::DynamicSlice& op) {
  const auto& in = p.graph().node(id).inputs;
  const View x = p.view(in[0]);
  const View start = p.view(in[1]);
  const View y = p.result(id);
  const auto axis = static_cast<std::size_t>(op.axis);
  const View read = sliced(x, axis, 0, op.extent, 1);  // somewhere in x
  p.add_step(id, "dynamic_slice",
             [=, extent = op.extent](const Run& run) {
               const std::int64_t last = x.shape[axis] - extent;
               const std::int64_t at =
                   std::clamp<std::int64_t>(load_integer(run, start, start.offset), 0, last);
               run_copy(run, sliced(x, axis, at, extent, 1), y);
             },
             {&read, &start, &y});
}

namespace {

double reduce_start(graph::ReduceKind kind) {
  switch (kind) {
    case graph::ReduceKind::Max:
      return -std::numeric_limits<double>::infinity();
    case graph::ReduceKind::Min:
      return std::numeric_limits<double>::infinity();
    default:
      return 0;
  }
}

double reduce_step(graph::ReduceKind kind, double total, double value) {
  switch (kind) {
    case graph::ReduceKind::Max:
      return std::isnan(value) || value > total ? value : total;
    case graph::ReduceKind::Min:
      return std::isnan(value) || value < total ? value : total;
    default:
      return total + value;
  }
}

// x without its reduced axes (kept) and along them only (inner), for a walk inside a walk.
struct ReducedAxes {
  Shape kept, inner;
  View x_inner;
};

ReducedAxes split_axes(const View& x, const graph::Dims& axes) {
  Dims kept(x.shape.dims().begin(), x.shape.dims().end());
  Dims inner(x.shape.rank(), 1);
  for (const std::int64_t axis : axes) {
    inner[static_cast<std::size_t>(axis)] = kept[static_cast<std::size_t>(axis)];
    kept[static_cast<std::size_t>(axis)] = 1;
  }
  ReducedAxes r{.kept = Shape(kept), .inner = Shape(inner), .x_inner = x};
  r.x_inner.shape = r.inner;
  return r;
}

}  // namespace

void plan_reduce(Planner& p, NodeId id, const graph::Reduce& op) {
  const View x = p.view(p.graph().node(id).inputs[0]);
  const View y = p.result(id);
  const ReducedAxes axes = split_axes(x, op.axes);
  p.add_step(id, "reduce",
             [=, kind = op.kind](const Run& run) {
               View outer = x;
               outer.shape = axes.kept;
               const auto count = static_cast<double>(axes.inner.elements());
               walk(axes.kept, {&outer, &y}, [&](const auto& e) {
                 View item = axes.x_inner;
                 item.offset = e[0];
                 double total = reduce_start(kind);
                 walk(item.shape, {&item}, [&](const auto& i) {
                   total = reduce_step(kind, total, load_number(run, item, i[0]));
                 });
                 total = kind == graph::ReduceKind::Mean ? total / count : total;
                 if (is_float(y.dtype)) {
                   store_float(run, y, e[1], static_cast<float>(total));
                 } else {
                   store_integer(run, y, e[1], static_cast<std::int64_t>(total));
                 }
               });
             },
             {&x, &y});
}

void plan_argmax(Planner& p, NodeId id, const graph::ArgMax& op) {
  const View x = p.view(p.graph().node(id).inputs[0]);
  const View y = p.result(id);
  const ReducedAxes axes = split_axes(x, {op.axis});
  const View y_kept = *reshaped(y, axes.kept);
  p.add_step(id, "argmax",
             [=](const Run& run) {
               View outer = x;
               outer.shape = axes.kept;
               walk(axes.kept, {&outer, &y_kept}, [&](const auto& e) {
                 View item = axes.x_inner;
                 item.offset = e[0];
                 double best = -std::numeric_limits<double>::infinity();
                 std::int64_t at = 0;
                 std::int64_t n = 0;
                 walk(item.shape, {&item}, [&](const auto& i) {
                   const double value = load_number(run, item, i[0]);
                   if (value > best) {
                     best = value;
                     at = n;
                   }
                   ++n;
                 });
                 store_integer(run, y_kept, e[1], at);
               });
             },
             {&x, &y});
}

void plan_upsample(Planner& p, NodeId id, const graph::Upsample& op) {
  if (folds_into_convolutions(p, id)) {
    return;
  }
  const View x = p.rows(p.graph().node(id).inputs[0]);
  const View y = p.result(id);
  const std::int64_t f = op.factor;
  p.add_step(id, "upsample",
             [=](const Run& run) {
               const auto width = static_cast<std::size_t>(x.shape[3]) * dtype_bytes(x.dtype);
               run.threads->run(y.shape[0] * y.shape[1], [&](std::int64_t task, int) {
                 const std::int64_t b = task / y.shape[1];
                 const std::int64_t row = task % y.shape[1];
                 for (std::int64_t column = 0; column < y.shape[2]; ++column) {
                   std::memcpy(element(run, y,
                                       y.offset + b * y.strides[0] + row * y.strides[1] +
                                           column * y.strides[2]),
                               element(run, x,
                                       x.offset + b * x.strides[0] + row / f * x.strides[1] +
                                           column / f * x.strides[2]),
                               width);
                 }
               });
             },
             {&x, &y});
}

}  // namespace difflet::cpu
