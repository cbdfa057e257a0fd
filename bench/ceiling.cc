#include "bench/ceiling.h"

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <functional>
#include <thread>
#include <vector>

namespace difflet::bench {
namespace {

// Fourteen independent accumulators cover latency x width of every chip we know. The factors are
// zero: values do not matter for the speed as long as they are neither denormal nor NaN.
// clang-format off: it changes its mind about these lines each time
#define DIFFLET_FOURTEEN(OP, R)                                          \
  OP(R, 0) OP(R, 1) OP(R, 2) OP(R, 3) OP(R, 4) OP(R, 5) OP(R, 6)         \
  OP(R, 7) OP(R, 8) OP(R, 9) OP(R, 10) OP(R, 11) OP(R, 12) OP(R, 13)
// clang-format on
#define DIFFLET_CLOBBERS                                                                         \
  "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
      "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#define DIFFLET_FMA(R, N) "vfmadd231ps %%" R "14, %%" R "15, %%" R #N "\n"
#define DIFFLET_DOT(R, N) "vdpbf16ps %%" R "14, %%" R "15, %%" R #N "\n"
#define DIFFLET_MUL_ADD(R, N) "mulps %%" R "14, %%" R #N "\naddps %%" R "15, %%" R #N "\n"
#define DIFFLET_LOOP(NAME, OP, R)                          \
  void NAME(long rounds) {                                 \
    __asm__ volatile(                                      \
        "xorps %%xmm14, %%xmm14\nxorps %%xmm15, %%xmm15\n" \
        "1:\n" DIFFLET_FOURTEEN(OP, R) "dec %0\njnz 1b\n"  \
        : "+r"(rounds)::DIFFLET_CLOBBERS);                 \
  }
DIFFLET_LOOP(f32_xmm, DIFFLET_MUL_ADD, "xmm")
DIFFLET_LOOP(f32_ymm, DIFFLET_FMA, "ymm")
DIFFLET_LOOP(f32_zmm, DIFFLET_FMA, "zmm")
DIFFLET_LOOP(bf16_zmm, DIFFLET_DOT, "zmm")

struct Loop {
  void (*run)(long rounds);
  double flop_per_round;
};
Loop loop_of(Arithmetic a) {
  switch (a) {
    case Arithmetic::F32Xmm:
      return {f32_xmm, 14.0 * 8};
    case Arithmetic::F32Ymm:
      return {f32_ymm, 14.0 * 16};
    case Arithmetic::F32Zmm:
      return {f32_zmm, 14.0 * 32};
    case Arithmetic::Bf16Zmm:
      return {bf16_zmm, 14.0 * 64};
  }
  return {};
}

double seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// One window on this thread: GFLOP/s, or 0 if the thread was descheduled in it.
double window(const Loop& loop, long rounds) {
  const double wall = seconds(CLOCK_MONOTONIC);
  const double cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
  loop.run(rounds);
  const double cpu_spent = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
  const double wall_spent = seconds(CLOCK_MONOTONIC) - wall;
  if (cpu_spent < 0.993 * wall_spent) return 0;
  return static_cast<double>(rounds) * loop.flop_per_round / wall_spent * 1e-9;
}

}  // namespace

double ceiling_gflops(Arithmetic arithmetic, int threads) {
  constexpr long kRounds = 600'000;  // 1-5 ms
  constexpr int kWindows = 25;
  const Loop loop = loop_of(arithmetic);
  std::vector<std::vector<double>> found(static_cast<std::size_t>(threads));
  const auto measure = [&](std::vector<double>& mine) {
    loop.run(kRounds);
    for (int i = 0; i < kWindows; ++i) {
      if (const double v = window(loop, kRounds); v > 0) mine.push_back(v);
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) {
    others.emplace_back(measure, std::ref(found[static_cast<std::size_t>(t)]));
  }
  measure(found[0]);
  for (std::thread& t : others) t.join();
  std::vector<double> all;
  for (const auto& v : found) all.insert(all.end(), v.begin(), v.end());
  if (all.empty()) return 0;
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

double process_cpu_seconds() { return seconds(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace difflet::bench
