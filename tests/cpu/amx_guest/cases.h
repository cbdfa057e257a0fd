// What the guest computes, and what is expected of it: the kernels of the level amx on given operands, and
// a hash of every result. Compiled for the guest, where there is no library, and for the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "difflet/backends/cpu/kernels/attention.h"
#include "difflet/backends/cpu/kernels/linear.h"
#include "difflet/backends/cpu/kernels/winograd.h"

namespace difflet::amx_guest {

// Writes one character of the result.
void put(char c);
// 4096-byte aligned memory, all bytes 1. All of it is given back by free_all().
char* allocate(std::size_t bytes);
void free_all();

void put_text(const char* text);
// A line "<name> <number> <hash of the bytes>".
void put_result(const char* name, int number, const void* data, std::size_t bytes);
// Uniform in [-scale, scale), rounded to bf16, from a fixed sequence.
std::uint16_t* random_bf16(std::int64_t count, float scale);

void run_linear(const cpu::LinearKernel& kernel);
void run_attention(const cpu::AttentionKernel& kernel);
void run_winograd(const cpu::WinogradKernel& kernel);
// The instruction by which attention rounds two vectors at once, which emulators got wrong.
void run_rounding();

// The products of tiles of bf16, some of them denormals, and of bytes.
template <class Tiles>
void run_tiles() {
  constexpr std::size_t kBytes = 1024;
  std::uint16_t* const a = random_bf16(512, 1);
  std::uint16_t* const b = random_bf16(512, 1);
  for (int i = 0; i < 512; i += 7) a[i] = static_cast<std::uint16_t>(i);
  char* const c = allocate(kBytes);
  Tiles::configure();
  Tiles::template load<1>(a, 64);
  Tiles::template load_passing<2>(b, 64);
  Tiles::template zero<0>();
  Tiles::template dot<0, 1, 2>();
  Tiles::template dot<0, 2, 1>();
  Tiles::template store<0>(c, 64);
  put_result("tiles", 1, c, kBytes);
  Tiles::template dot_s8<0, 1, 2>();
  Tiles::template dot_s8<0, 2, 1>();
  Tiles::template store<0>(c, 64);
  Tiles::release();
  put_result("bytes", 1, c, kBytes);
  free_all();
}

}  // namespace difflet::amx_guest
