#include "difflet/backends/cpu/weights.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>

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
    v = declared == DType::BF16 ? bf16_to_f32(f32_to_bf16(v)) : v;
    good = good && std::isfinite(v);
    if (stored == DType::F32) {
      std::memcpy(out + i * 4, &v, 4);
    } else {
      const std::uint16_t h = f32_to_bf16(v);
      std::memcpy(out + i * 2, &h, 2);
    }
  }
  return good;
}

// Copies `whole` as `stored`. False when a value is not finite.
bool store_plain(const HostTensor& whole, DType declared, DType stored, std::byte* out,
                 ThreadPool& threads) {
  if (!is_float(whole.dtype())) {
    const HostTensor t = whole.to(stored);
    std::memcpy(out, t.bytes().data(), t.bytes().size());
    return true;
  }
  const std::int64_t n = whole.shape().elements();
  std::atomic<bool> good{true};
  threads.run((n + kChunk - 1) / kChunk, [&](std::int64_t task, int) {
    const std::int64_t first = task * kChunk;
    const std::int64_t last = std::min(n, first + kChunk);
    bool ok = true;
    if (whole.dtype() == DType::F32) {
      const auto same = [](float v) { return v; };
      ok = store_range(whole.as<float>(), same, declared, stored, first, last, out);
    } else {
      const auto widen = whole.dtype() == DType::BF16 ? bf16_to_f32 : f16_to_f32;
      ok = store_range(whole.as<std::uint16_t>(), widen, declared, stored, first, last, out);
    }
    if (!ok) {
      good = false;
    }
  });
  return good;
}

// Pack tasks are ranges of output rows; f16 is widened first.
bool store_linear(const WeightJob& job, const HostTensor& whole, std::byte* out,
                  ThreadPool& threads) {
  const HostTensor w = whole.dtype() == DType::F16 ? whole.to(DType::F32) : whole;
  const Elem elem = elem_of(w.dtype());
  const std::int64_t step = std::max<std::int64_t>(
      job.kernel->pack_step, kChunk * 4 / std::max<std::int64_t>(1, job.desc.k) /
                                 job.kernel->pack_step * job.kernel->pack_step);
  std::atomic<bool> good{true};
  threads.run((job.desc.n + step - 1) / step, [&](std::int64_t task, int) {
    const std::int64_t n0 = task * step;
    if (!job.kernel->pack(job.desc, w.bytes().data(), elem, n0, std::min(job.desc.n, n0 + step),
                          out)) {
      good = false;
    }
  });
  return good;
}

}  // namespace

void load_weights(const Plan& plan, const graph::Graph& graph, const runtime::WeightSource& source,
                  std::byte* region, ThreadPool& threads) {
  std::map<std::int64_t, std::vector<const WeightJob*>> by_param;
  for (const WeightJob& job : plan.weights) {
    by_param[job.param].push_back(&job);
  }
  for (const auto& [index, jobs] : by_param) {
    const graph::ParamDecl& decl = graph.params()[static_cast<std::size_t>(index)];
    const HostTensor whole = source.whole(decl);
    check(whole.shape() == decl.shape, ErrorCode::InvalidArgument, "tensor '{}' must be {}, not {}",
          decl.name, decl.shape.str(), whole.shape().str());
    for (const WeightJob* job : jobs) {
      std::byte* out = region + plan.buffers[job->buffer].index;
      bool good = true;
      switch (job->kind) {
        case WeightJob::Kind::Plain:
          good = store_plain(whole, decl.dtype, job->dtype, out, threads);
          break;
        case WeightJob::Kind::Linear:
          good = store_linear(*job, whole, out, threads);
          break;
        case WeightJob::Kind::Conv:
          good = job->conv->pack(whole, out);
          break;
      }
      check(good, ErrorCode::DataLoss, "tensor '{}' holds NaN or Inf", decl.name);
    }
    source.done(decl);
  }
}

}  // namespace difflet::cpu
