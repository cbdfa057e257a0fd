// The program of the guest. Results go to port 0xe9, which Bochs writes to its standard output.
#include "cases.h"

#include "difflet/backends/cpu/kernels/amx_tiles.h"
#include "difflet/backends/cpu/kernels/attention_tables.h"
#include "difflet/backends/cpu/kernels/linear_tables.h"
#include "difflet/backends/cpu/kernels/winograd_tables.h"

namespace difflet::amx_guest {
namespace {

// Memory from here on is free.
constexpr std::uintptr_t kHeap = std::uintptr_t{16} << 20U;
std::uintptr_t next = kHeap;

void out(std::uint16_t port, char c) { __asm__ volatile("outb %0, %1" : : "a"(c), "d"(port)); }

}  // namespace

void put(char c) { out(0xe9, c); }

char* allocate(std::size_t bytes) {
  auto* const p = reinterpret_cast<char*>(next);  // NOLINT(performance-no-int-to-ptr)
  next += (bytes + 4095) / 4096 * 4096;
  __builtin_memset(p, 1, bytes);
  return p;
}

void free_all() { next = kHeap; }

}  // namespace difflet::amx_guest

// What the compiler may call.
extern "C" void* memset(void* to, int value, std::size_t bytes) {
  for (volatile char* p = static_cast<char*>(to); bytes > 0; --bytes)
    *p++ = static_cast<char>(value);
  return to;
}
extern "C" void* memcpy(void* to, const void* from, std::size_t bytes) {
  const char* f = static_cast<const char*>(from);
  for (volatile char* p = static_cast<char*>(to); bytes > 0; --bytes) *p++ = *f++;
  return to;
}
extern "C" {
int __gxx_personality_v0;  // NOLINT(bugprone-reserved-identifier): mentioned in tables, never called
}

extern "C" [[gnu::section(".text.start")]] void start() {
  using namespace difflet;  // NOLINT(google-build-using-namespace)
  amx_guest::run_tiles<cpu::AmxTiles>();
  amx_guest::run_linear(cpu::kLinearAmx);
  amx_guest::run_linear(cpu::kLinearAmxW8a16);
  amx_guest::run_linear(cpu::kLinearAmxW8a8);
  amx_guest::run_rounding();
  amx_guest::run_attention(cpu::kAttentionAmx);
  amx_guest::run_winograd(cpu::kWinogradAmx);
  amx_guest::put_text("end\n");
  for (const char* p = "Shutdown"; *p != 0; ++p) amx_guest::out(0x8900, *p);
}
