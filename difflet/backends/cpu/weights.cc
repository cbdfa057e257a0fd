#include "difflet/backends/cpu/weights.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>

#include "difflet/backends/cpu/conv.h"
#include "difflet/backends/cpu/planner.h"
#include "difflet/base/error.h"

namespace difflet::cpu {
namespace {

constexpr std::int64_t kChunk = 1 << 16;  // elements a task

// Elements [first, last) of `from`, of dtype T, as the program reads them (`declared`) and as they
// are stored (`stored`). False when one is not finite.
template <typename T, typename ToFloat>
bool store_range(std::span<const T> from, const ToFloat& to_float, DType declared, DType stored,
                 std::int64_t first, std::int64_t last, std::byte* out) {
  bool good = true;
  for (std::int64_t i = first; i < last; ++i) {
    float v = to_float(from[static_cast<std::size_t>(i)]);
    if (declared != DType::F32) {
      v = declared == DType::BF16 ? bf16_to_f32(f32_to_bf16(v)) : f16_to_f32(f32_to_f16(v));
    }
    good = good && std::isfinite(v);
    if (stored == DType::F32) {
      std::memcpy(out + i * 4, &v, 4);
    } else {
      const std::uint16_t h = stored == DType::BF16 ? f32_to_bf16(v) : f32_to_f16(v);
      std::memcpy(out + i * 2, &h, 2);
    }
  }
  return good;
}

// Zeros from byte `used` on: what the alignment of pieces adds.
void clear_rest(std::span<std::byte> out, std::size_t used) {
  std::ranges::fill(out.subspan(used), std::byte{0});
}

// Copies `whole` as `stored`. False when a value is not finite.
bool store_plain(const HostTensor& whole, DType declared, DType stored, std::span<std::byte> out,
                 ThreadPool& threads) {
  const std::int64_t n = whole.shape().elements();
  clear_rest(out, static_cast<std::size_t>(n) * dtype_bytes(stored));
  if (!is_float(whole.dtype())) {
    const HostTensor t = whole.to(stored);
    std::ranges::copy(t.bytes(), out.begin());
    return true;
  }
  std::atomic<bool> good{true};
  threads.run((n + kChunk - 1) / kChunk, [&](std::int64_t task, int) {
    const std::int64_t first = task * kChunk;
    const std::int64_t last = std::min(n, first + kChunk);
    bool ok = true;
    const auto store_from = [&](auto values, const auto& to_float) {
      return store_range(values, to_float, declared, stored, first, last, out.data());
    };
    if (whole.dtype() == DType::F32) {
      ok = store_from(whole.as<float>(), [](float v) { return v; });
    } else if (whole.dtype() == DType::BF16) {
      ok = store_from(whole.as<std::uint16_t>(), [](std::uint16_t v) { return bf16_to_f32(v); });
    } else {
      ok = store_from(whole.as<std::uint16_t>(), [](std::uint16_t v) { return f16_to_f32(v); });
    }
    if (!ok) {
      good = false;
    }
  });
  return good;
}

// What kernels pack from: f16 is widened, bytes may come as wider integers.
HostTensor packable(const HostTensor& whole) {
  if (whole.dtype() == DType::F16) {
    return whole.to(DType::F32);
  }
  return is_float(whole.dtype()) || whole.dtype() == DType::I8 ? whole : whole.to(DType::I8);
}

// Pack tasks are ranges of output rows.
bool store_linear(const WeightJob& job, const HostTensor& whole, std::span<std::byte> out,
                  ThreadPool& threads) {
  clear_rest(out, job.kernel->packed_bytes(job.desc));
  const HostTensor w = packable(whole);
  const Elem elem = weight_elem_of(w.dtype());
  const std::int64_t step = std::max<std::int64_t>(
      job.kernel->pack_step, kChunk * 4 / std::max<std::int64_t>(1, job.desc.k) /
                                 job.kernel->pack_step * job.kernel->pack_step);
  std::atomic<bool> good{true};
  threads.run((job.desc.n + step - 1) / step, [&](std::int64_t task, int) {
    const std::int64_t n0 = task * step;
    if (!job.kernel->pack(job.desc, w.bytes().data(), elem, n0, std::min(job.desc.n, n0 + step),
                          out.data())) {
      good = false;
    }
  });
  return good;
}

bool store_conv(const WeightJob& job, const HostTensor& whole, std::span<std::byte> out) {
  clear_rest(out, job.conv->packed_bytes());
  return job.conv->pack(whole, out.data());
}

// Fills the piece of `job` from the whole parameter. False when a value is not finite.
bool store(const WeightJob& job, const graph::ParamDecl& decl, const HostTensor& whole,
           std::span<std::byte> out, ThreadPool& threads) {
  switch (job.kind) {
    case WeightJob::Kind::Plain:
      return store_plain(whole, decl.dtype, job.dtype, out, threads);
    case WeightJob::Kind::Linear:
      return store_linear(job, whole, out, threads);
    case WeightJob::Kind::Conv:
      return store_conv(job, whole, out);
  }
  return false;
}

// The jobs of one parameter, which is read only when the sink wants a piece of it.
void pack_parameter(const graph::ParamDecl& decl, std::span<const WeightJob> jobs,
                    const runtime::WeightSource& source, runtime::PieceSink& sink,
                    ThreadPool& threads) {
  std::optional<HostTensor> whole;
  for (const WeightJob& job : jobs) {
    const std::span<std::byte> out = sink.begin(job.piece);
    if (out.empty()) {
      continue;
    }
    require(out.size() == job.piece.bytes, "a sink with memory of another size");
    if (!whole) {
      whole = source.whole(decl);
      check(whole->shape() == decl.shape, ErrorCode::InvalidArgument,
            "tensor '{}' must be {}, not {}", decl.name, decl.shape.str(), whole->shape().str());
      check(is_float(whole->dtype()) == is_float(decl.dtype), ErrorCode::InvalidArgument,
            "tensor '{}' is of {}, which does not convert to {}", decl.name,
            dtype_name(whole->dtype()), dtype_name(decl.dtype));
    }
    check(store(job, decl, *whole, out, threads), ErrorCode::DataLoss,
          "tensor '{}' holds NaN or Inf", decl.name);
    sink.end(job.piece);
  }
  if (whole) {
    whole.reset();
    source.done(decl);
  }
}

}  // namespace

void pack_weights(const Plan& plan, const graph::Graph& graph, const runtime::WeightSource& source,
                  runtime::PieceSink& sink, ThreadPool& threads) {
  const std::span<const WeightJob> all = plan.weights;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t end = i;
    while (end < all.size() && all[end].param == all[i].param) {
      ++end;
    }
    pack_parameter(graph.params()[static_cast<std::size_t>(all[i].param)], all.subspan(i, end - i),
                   source, sink, threads);
    i = end;
  }
}

}  // namespace difflet::cpu
