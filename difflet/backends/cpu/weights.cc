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

bool finite(float v) { return std::isfinite(v); }

float element_as_float(const HostTensor& t, std::int64_t i) {
  switch (t.dtype()) {
    case DType::F32: return t.as<float>()[static_cast<std::size_t>(i)];
    case DType::BF16: return bf16_to_f32(t.as<std::uint16_t>()[static_cast<std::size_t>(i)]);
    case DType::F16: return f16_to_f32(t.as<std::uint16_t>()[static_cast<std::size_t>(i)]);
    default: return 0;
  }
}

// Copies `whole` as `dtype`. False when a value is not finite.
bool store_plain(const HostTensor& whole, DType dtype, std::byte* out, ThreadPool& threads) {
  const std::int64_t n = whole.shape().elements();
  if (!is_float(whole.dtype())) {
    const HostTensor t = whole.to(dtype);
    std::memcpy(out, t.bytes().data(), t.bytes().size());
    return true;
  }
  std::atomic<bool> good{true};
  threads.run((n + kChunk - 1) / kChunk, [&](std::int64_t task, int) {
    bool ok = true;
    for (std::int64_t i = task * kChunk; i < std::min(n, (task + 1) * kChunk); ++i) {
      const float v = element_as_float(whole, i);
      ok = ok && finite(v);
      if (dtype == DType::F32) {
        std::memcpy(out + i * 4, &v, 4);
      } else {
        const std::uint16_t h = f32_to_bf16(v);
        std::memcpy(out + i * 2, &h, 2);
      }
    }
    if (!ok) {
      good = false;
    }
  });
  return good;
}

// Pack tasks are ranges of output rows; f16 is widened first.
bool store_linear(const WeightJob& job, const HostTensor& whole, std::byte* out, ThreadPool& threads) {
  const HostTensor w = whole.dtype() == DType::F16 ? whole.to(DType::F32) : whole;
  const Elem elem = elem_of(w.dtype());
  const std::int64_t step = std::max<std::int64_t>(
      job.kernel->pack_step,
      kChunk * 4 / std::max<std::int64_t>(1, job.desc.k) / job.kernel->pack_step * job.kernel->pack_step);
  std::atomic<bool> good{true};
  threads.run((job.desc.n + step - 1) / step, [&](std::int64_t task, int) {
    const std::int64_t n0 = task * step;
    if (!job.kernel->pack(job.desc, w.bytes().data(), elem, n0, std::min(job.desc.n, n0 + step), out)) {
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
    for (const WeightJob* job : jobs) {
      std::byte* out = region + plan.buffers[job->buffer].index;
      bool good = true;
      switch (job->kind) {
        case WeightJob::Kind::Plain: good = store_plain(whole, job->dtype, out, threads); break;
        case WeightJob::Kind::Linear: good = store_linear(*job, whole, out, threads); break;
        case WeightJob::Kind::Conv: good = job->conv->pack(whole, out); break;
      }
      check(good, ErrorCode::DataLoss, "tensor '{}' holds NaN or Inf", decl.name);
    }
    source.done(decl);
  }
}

}  // namespace difflet::cpu
