// Convolutions of the FLUX picture decoder beside the machine's own ceiling, measured around each
// figure, by CPU time: what the backend chooses, and every algorithm that it could have chosen.
//
//   conv_bench [--level NAME] [--threads N] [--filter TEXT] [--reps N] [--chosen]
//
// A rate counts the operations of the direct algorithm, so that Winograd may pass the ceiling.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bench/huge_buffer.h"
#include <fmt/format.h>

#include "difflet/backends/cpu/conv.h"
#include "difflet/base/error.h"
#include "difflet/base/thread_pool.h"
#include "difflet/bench/ceilings.h"

namespace difflet::bench {
namespace {

using cpu::ConvDesc;
using cpu::ConvKernel;
using cpu::Elem;
using cpu::Level;

struct Options {
  Level level = cpu::detect_level();
  int threads = 1;
  int reps = 3;
  std::string filter;
  bool chosen = false;  // only what the backend chooses
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string key = argv[i];
    if (key == "--chosen") {
      o.chosen = true;
      continue;
    }
    check(i + 1 < argc, ErrorCode::InvalidArgument, "{} needs a value", key);
    const std::string value = argv[++i];
    if (key == "--level") {
      const auto level = cpu::parse_level(value);
      check(level.has_value(), ErrorCode::InvalidArgument, "unknown level {}", value);
      o.level = *level;
    } else if (key == "--threads") {
      o.threads = std::atoi(value.c_str());
    } else if (key == "--reps") {
      o.reps = std::atoi(value.c_str());
    } else if (key == "--filter") {
      o.filter = value;
    } else {
      fail(ErrorCode::InvalidArgument, "unknown option {}", key);
    }
  }
  return o;
}

struct Shape {
  std::int64_t size, in, out, kernel;
};
constexpr Shape kShapes[] = {{128, 16, 512, 3},  {128, 512, 512, 3}, {256, 512, 256, 3},
                             {256, 256, 256, 3}, {512, 256, 128, 3}, {512, 128, 128, 3},
                             {512, 256, 128, 1}, {512, 128, 3, 3}};

ConvDesc describe(const Shape& s, Elem elem) {
  const std::int64_t pad = s.kernel / 2;
  return {.batch = 1,
          .height = s.size,
          .width = s.size,
          .in_channels = s.in,
          .out_height = s.size,
          .out_width = s.size,
          .out_channels = s.out,
          .kernel_h = s.kernel,
          .kernel_w = s.kernel,
          .pad_top = pad,
          .pad_left = pad,
          .pad_bottom = pad,
          .pad_right = pad,
          .elem = elem};
}

HostTensor random_tensor(const difflet::Shape& shape, DType dtype) {
  HostTensor t(DType::F32, shape);
  std::uint32_t state = 1;
  for (float& v : t.mutable_as<float>()) {
    state = state * 1664525U + 1013904223U;
    v = static_cast<float>(state >> 8U) / 8388608.0F - 1.0F;
  }
  return t.to(dtype);
}

Arithmetic arithmetic_of(Level level, Elem elem) {
  return arithmetic_of_level(cpu::level_name(level), elem == Elem::Bf16 ? DType::BF16 : DType::F32);
}

// Median CPU seconds of a call and the ceiling at that time.
struct Sample {
  double seconds, ceiling;
};
Sample measure(const Options& o, Arithmetic arithmetic, const std::function<void()>& call) {
  call();
  std::vector<Sample> samples;
  for (int r = 0; r < o.reps; ++r) {
    const double ceiling = ceiling_gflops(arithmetic, o.threads);
    const double start = process_cpu_seconds();
    call();
    samples.push_back({process_cpu_seconds() - start, ceiling});
  }
  std::sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) {
    return a.seconds * a.ceiling < b.seconds * b.ceiling;
  });
  return samples[samples.size() / 2];
}

void bench(const Options& o, const Shape& s, Elem elem, ConvKernel* kernel, ThreadPool& threads) {
  if (kernel == nullptr) {
    return;
  }
  const DType dtype = elem == Elem::Bf16 ? DType::BF16 : DType::F32;
  const HostTensor weight = random_tensor({s.out, s.in, s.kernel, s.kernel}, dtype);
  const HostTensor x = random_tensor({s.size, s.size, s.in}, dtype);
  const HugeBuffer packed(kernel->packed_bytes());
  const HugeBuffer y(static_cast<std::size_t>(s.size * s.size * s.out) * cpu::elem_bytes(elem));
  const HugeBuffer scratch(kernel->scratch_bytes() * static_cast<std::size_t>(o.threads));
  const auto bytes = [](const HugeBuffer& b) { return static_cast<std::byte*>(b.data()); };
  (void)kernel->pack(weight, bytes(packed));
  kernel->generate();
  const Sample m = measure(o, arithmetic_of(o.level, elem), [&] {
    threads.run(kernel->tasks(), [&](std::int64_t task, int thread) {
      kernel->run({.x = x.bytes().data(), .packed = bytes(packed), .y = y.data()}, task,
                  bytes(scratch) + kernel->scratch_bytes() * static_cast<std::size_t>(thread));
    });
  });
  const double gflop =
      2e-9 * static_cast<double>(s.size * s.size * s.in * s.out * s.kernel * s.kernel);
  fmt::print(
      "{}x{} {:3} -> {:3} @{} {:4} T{} {:8.1f} ms {:7.1f} GFLOP/s a core, ceiling {:6.1f}, {:5.1f} "
      "%, "
      "scratch {:5.1f} MB a thread  {}\n",
      s.kernel, s.kernel, s.in, s.out, s.size, elem == Elem::Bf16 ? "bf16" : "f32", o.threads,
      m.seconds * 1e3, gflop / m.seconds, m.ceiling, 100 * gflop / m.seconds / m.ceiling,
      static_cast<double>(kernel->scratch_bytes()) / (1 << 20), kernel->name());
  std::fflush(stdout);
}

int run(const Options& o) {
  ThreadPool threads(o.threads);
  for (const Elem elem : {Elem::F32, Elem::Bf16}) {
    for (const Shape& s : kShapes) {
      const std::string name =
          fmt::format("{}-{}@{} {}", s.in, s.out, s.size, elem == Elem::Bf16 ? "bf16" : "f32");
      if (name.find(o.filter) == std::string::npos) {
        continue;
      }
      const ConvDesc desc = describe(s, elem);
      if (o.chosen) {
        bench(o, s, elem, ConvKernel::create(desc, o.level).get(), threads);
        continue;
      }
      for (const auto algorithm : cpu::kConvAlgorithms) {
        bench(o, s, elem, ConvKernel::create(desc, o.level, algorithm).get(), threads);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace difflet::bench

int main(int argc, char** argv) {
  try {
    return difflet::bench::run(difflet::bench::parse(argc, argv));
  } catch (const difflet::Error& e) {
    fmt::print(stderr, "conv_bench: {}\n", e.message());
    return difflet::exit_status(e.code());
  }
}
