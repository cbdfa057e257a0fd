// Prints what the guest has to print, by emulated tiles; exits with 77 where the chip cannot.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cases.h"

#include "difflet/backends/cpu/kernels/amx_emulated.h"
#include "difflet/backends/cpu/kernels/amx_tiles_emulated.h"

namespace difflet::amx_guest {
namespace {

std::vector<char*>& blocks() {
  static std::vector<char*> all;
  return all;
}

}  // namespace

void put(char c) { std::putchar(c); }

char* allocate(std::size_t bytes) {
  void* const p = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  std::memset(p, 1, bytes);
  blocks().push_back(static_cast<char*>(p));
  return blocks().back();
}

void free_all() {
  for (char* p : blocks()) std::free(p);
  blocks().clear();
}

}  // namespace difflet::amx_guest

int main() {
  using namespace difflet;  // NOLINT(google-build-using-namespace)
  if (cpu::detect_level() < cpu::Level::Avx512Bf16) {
    std::puts("skipped: the expected results need AVX-512 BF16");
    return 77;
  }
  amx_guest::run_tiles<cpu::EmulatedTiles>();
  amx_guest::run_linear(cpu::kLinearAmxEmulated);
  amx_guest::run_linear(cpu::kLinearAmxW8a16Emulated);
  amx_guest::run_linear(cpu::kLinearAmxW8a8Emulated);
  amx_guest::run_rounding();
  amx_guest::run_attention(cpu::kAttentionAmxEmulated);
  amx_guest::run_winograd(cpu::kWinogradAmxEmulated);
  amx_guest::put_text("end\n");
  return 0;
}
