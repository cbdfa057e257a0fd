// Elementwise steps: vector kernels along the longest shared run, a scalar walk for odd strides and
// for integers.
#include <algorithm>
#include <bit>
#include <cmath>

#include "difflet/backends/cpu/planner.h"
#include "difflet/backends/cpu/scalar_walk.h"
#include "difflet/base/error.h"

namespace difflet::cpu {
namespace {

using graph::NodeId;

constexpr std::int64_t kChunk = 16384;  // elements a task

bool vector_dtype(DType t) { return t == DType::F32 || t == DType::BF16; }

// Splits [rows x width] into tasks of about kChunk elements and calls f(row, first, count).
template <typename F>
void for_chunks(const Run& run, std::int64_t rows, std::int64_t width, const F& f) {
  if (width >= kChunk) {
    const std::int64_t parts = (width + kChunk - 1) / kChunk;
    run.threads->run(rows * parts, [&](std::int64_t task, int) {
      const std::int64_t first = task % parts * kChunk;
      f(task / parts, first, std::min(kChunk, width - first));
    });
    return;
  }
  const std::int64_t step = std::max<std::int64_t>(1, kChunk / std::max<std::int64_t>(1, width));
  run.threads->run((rows + step - 1) / step, [&](std::int64_t task, int) {
    for (std::int64_t r = task * step; r < std::min(rows, (task + 1) * step); ++r) {
      f(r, std::int64_t{0}, width);
    }
  });
}

std::byte* at(const Run& run, const View& v, std::int64_t element) {
  return run.bytes(v.buffer, element * static_cast<std::int64_t>(dtype_bytes(v.dtype)));
}

void vector_unary(Planner& p, NodeId id, UnaryFn fn, const char* name) {
  const NodeId operand = p.graph().node(id).inputs[0];
  View x = p.view(operand);
  const View y = p.result(id);
  const auto nest_of = [&y](const View& from) {
    const View* const operands[] = {&from, &y};
    return collapse(y.shape, operands, Width::Merge);
  };
  LoopNest nest = nest_of(x);
  if (nest.width > 1 && (nest.step[0] != 1 || nest.step[1] != 1)) {
    x = p.dense(operand);  // odd strides
    nest = nest_of(x);
  }
  const RowwiseKernels* k = &p.rowwise();
  p.add_step(id, name,
             [=](const Run& run) {
               for (const auto& o : nest.offset) {
                 for_chunks(
                     run, nest.rows, nest.width,
                     [&](std::int64_t r, std::int64_t c, std::int64_t n) {
                       k->unary(fn, at(run, x, o[0] + r * nest.row_stride[0] + c), elem_of(x.dtype),
                                at(run, y, o[1] + r * nest.row_stride[1] + c), elem_of(y.dtype), n);
                     });
               }
             },
             {&x, &y});
}

UnaryFn unary_fn(graph::UnaryKind kind) {
  using K = graph::UnaryKind;
  switch (kind) {
    case K::Neg:
      return UnaryFn::Neg;
    case K::Abs:
      return UnaryFn::Abs;
    case K::Exp:
      return UnaryFn::Exp;
    case K::Log:
      return UnaryFn::Log;
    case K::Sin:
      return UnaryFn::Sin;
    case K::Cos:
      return UnaryFn::Cos;
    case K::Sqrt:
      return UnaryFn::Sqrt;
    case K::Rsqrt:
      return UnaryFn::Rsqrt;
    case K::Tanh:
      return UnaryFn::Tanh;
    case K::Erf:
      return UnaryFn::Erf;
    case K::Sigmoid:
      return UnaryFn::Sigmoid;
    case K::Floor:
      return UnaryFn::Floor;
  }
  return UnaryFn::Copy;
}

BinaryFn binary_fn(graph::BinaryKind kind) {
  using K = graph::BinaryKind;
  switch (kind) {
    case K::Add:
      return BinaryFn::Add;
    case K::Sub:
      return BinaryFn::Sub;
    case K::Mul:
      return BinaryFn::Mul;
    case K::Div:
      return BinaryFn::Div;
    case K::Max:
      return BinaryFn::Max;
    case K::Min:
      return BinaryFn::Min;
    case K::Pow:
      return BinaryFn::Pow;
  }
  return BinaryFn::Add;
}

UnaryFn activation_fn(graph::Activation act) {
  using A = graph::Activation;
  switch (act) {
    case A::None:
      return UnaryFn::Copy;
    case A::GeluTanh:
      return UnaryFn::GeluTanh;
    case A::GeluErf:
      return UnaryFn::GeluErf;
    case A::QuickGelu:
      return UnaryFn::QuickGelu;
    case A::Silu:
      return UnaryFn::Silu;
    case A::Relu:
      return UnaryFn::Relu;
  }
  return UnaryFn::Copy;
}

std::int64_t integer_binary(graph::BinaryKind kind, std::int64_t a, std::int64_t b) {
  using K = graph::BinaryKind;
  switch (kind) {
    case K::Add:
      return a + b;
    case K::Sub:
      return a - b;
    case K::Mul:
      return a * b;
    case K::Div:
      return b == 0 ? 0 : a / b;
    case K::Max:
      return std::max(a, b);
    case K::Min:
      return std::min(a, b);
    case K::Pow:
      return static_cast<std::int64_t>(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
  return 0;
}

bool compare_values(graph::CompareKind kind, double a, double b) {
  using K = graph::CompareKind;
  switch (kind) {
    case K::Eq:
      return a == b;
    case K::Ne:
      return a != b;
    case K::Lt:
      return a < b;
    case K::Le:
      return a <= b;
    case K::Gt:
      return a > b;
    case K::Ge:
      return a >= b;
  }
  return false;
}

}  // namespace

void plan_activate(Planner& p, NodeId id, const graph::Activate& op) {
  vector_unary(p, id, activation_fn(op.act), "activate");
}

void plan_unary(Planner& p, NodeId id, const graph::Unary& op) {
  if (vector_dtype(p.graph().node(id).type.dtype)) {
    vector_unary(p, id, unary_fn(op.kind), "unary");
    return;
  }
  check(op.kind == graph::UnaryKind::Neg || op.kind == graph::UnaryKind::Abs,
        ErrorCode::Unsupported, "this function needs a float operand, got {}",
        p.graph().node(id).type.str());
  const View x = p.view(p.graph().node(id).inputs[0]);
  const View y = p.result(id);
  const bool negate = op.kind == graph::UnaryKind::Neg;
  p.add_step(id, "unary.integer",
             [=](const Run& run) {
               walk(y.shape, {&x, &y}, [&](const auto& e) {
                 const std::int64_t v = load_integer(run, x, e[0]);
                 store_integer(run, y, e[1], negate || v < 0 ? -v : v);
               });
             },
             {&x, &y});
}

void plan_convert(Planner& p, NodeId id, const graph::Convert& op) {
  const NodeId operand = p.graph().node(id).inputs[0];
  const DType from = p.graph().node(operand).type.dtype;
  if (p.is_param(operand) && is_float(from) && is_float(op.dtype)) {
    // A converted parameter is stored converted.
    const View x = p.plain_param(operand, op.dtype);
    const View y = p.result(id);
    p.copy(id, x, y);
    return;
  }
  if (vector_dtype(from) && vector_dtype(op.dtype)) {
    vector_unary(p, id, UnaryFn::Copy, "convert");
    return;
  }
  const View x = p.view(operand);
  const View y = p.result(id);
  p.add_step(id, "convert.scalar",
             [=](const Run& run) {
               walk(y.shape, {&x, &y}, [&](const auto& e) {
                 if (is_float(x.dtype)) {
                   store_float(run, y, e[1], load_float(run, x, e[0]));
                 } else {
                   store_integer(run, y, e[1], load_integer(run, x, e[0]));
                 }
               });
             },
             {&x, &y});
}

void plan_binary(Planner& p, NodeId id, const graph::Binary& op) {
  const auto& in = p.graph().node(id).inputs;
  const Shape& shape = p.graph().node(id).type.shape;
  View a = broadcast_to(p.view(in[0]), shape);
  View b = broadcast_to(p.view(in[1]), shape);
  if (!vector_dtype(p.graph().node(id).type.dtype)) {
    const View y = p.result(id);
    p.add_step(id, "binary.integer",
               [=, kind = op.kind](const Run& run) {
                 walk(y.shape, {&a, &b, &y}, [&](const auto& e) {
                   store_integer(run, y, e[2],
                                 integer_binary(kind, load_integer(run, a, e[0]),
                                                load_integer(run, b, e[1])));
                 });
               },
               {&a, &b, &y});
    return;
  }
  const View y = p.result(id);
  const auto regular = [&] {
    const View* const operands[] = {&a, &b, &y};
    const LoopNest n = collapse(shape, operands, Width::Merge);
    return n.width == 1 || (n.step[0] <= 1 && n.step[1] <= 1 && n.step[2] == 1);
  };
  if (!regular()) {
    a = broadcast_to(p.dense(in[0]), shape);
    b = broadcast_to(p.dense(in[1]), shape);
  }
  const View* const operands[] = {&a, &b, &y};
  const LoopNest nest = collapse(shape, operands, Width::Merge);
  const RowwiseKernels* k = &p.rowwise();
  const BinaryFn fn = binary_fn(op.kind);
  p.add_step(
      id, "binary",
      [=](const Run& run) {
        const int sa = static_cast<int>(nest.step[0]);
        const int sb = static_cast<int>(nest.step[1]);
        for (const auto& o : nest.offset) {
          for_chunks(
              run, nest.rows, nest.width, [&](std::int64_t r, std::int64_t c, std::int64_t n) {
                k->binary(
                    fn, {at(run, a, o[0] + r * nest.row_stride[0] + c * sa), elem_of(a.dtype), sa},
                    {at(run, b, o[1] + r * nest.row_stride[1] + c * sb), elem_of(b.dtype), sb},
                    at(run, y, o[2] + r * nest.row_stride[2] + c), elem_of(y.dtype), n);
              });
        }
      },
      {&a, &b, &y});
}

void plan_compare(Planner& p, NodeId id, const graph::Compare& op) {
  const auto& in = p.graph().node(id).inputs;
  const Shape& shape = p.graph().node(id).type.shape;
  const View a = broadcast_to(p.view(in[0]), shape);
  const View b = broadcast_to(p.view(in[1]), shape);
  const View y = p.result(id);
  p.add_step(
      id, "compare",
      [=, kind = op.kind](const Run& run) {
        walk(y.shape, {&a, &b, &y}, [&](const auto& e) {
          store_integer(
              run, y, e[2],
              compare_values(kind, load_number(run, a, e[0]), load_number(run, b, e[1])) ? 1 : 0);
        });
      },
      {&a, &b, &y});
}

void plan_select(Planner& p, NodeId id, const graph::Select& /*op*/) {
  const auto& in = p.graph().node(id).inputs;
  const Shape& shape = p.graph().node(id).type.shape;
  const View c = broadcast_to(p.view(in[0]), shape);
  const View a = broadcast_to(p.view(in[1]), shape);
  const View b = broadcast_to(p.view(in[2]), shape);
  const View y = p.result(id);
  p.add_step(id, "select",
             [=](const Run& run) {
               walk(y.shape, {&c, &a, &b, &y}, [&](const auto& e) {
                 const bool first = load_integer(run, c, e[0]) != 0;
                 copy_element(run, first ? a : b, first ? e[1] : e[2], y, e[3]);
               });
             },
             {&c, &a, &b, &y});
}

}  // namespace difflet::cpu
