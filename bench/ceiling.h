// What one core can do at most, measured in the same run as the kernels that are judged by it.
#pragma once

namespace difflet::bench {

enum class Arithmetic { F32Xmm, F32Ymm, F32Zmm, Bf16Zmm };

// Multiply-adds on registers only, by `threads` threads at once, in GFLOP per second of CPU time
// and thread. The median of short windows in which no thread was descheduled. The chip must have the
// instructions.
double ceiling_gflops(Arithmetic arithmetic, int threads);

double process_cpu_seconds();

}  // namespace difflet::bench
