#include "difflet/backends/cpu/kernels/level.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace difflet::cpu {
namespace {

constexpr std::string_view kNames[] = {"scalar",     "avx2",       "avx512",
                                       "avx512vnni", "avx512bf16", "amx"};

struct Leaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};
Leaf cpuid(unsigned leaf, unsigned subleaf) noexcept {
  Leaf r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}
constexpr bool has(unsigned word, unsigned bits) { return (word & bits) == bits; }
constexpr unsigned bit(int n) { return 1U << n; }

// The register states that the operating system saves (XCR0).
std::uint64_t saved_states() noexcept {
  unsigned low = 0;
  unsigned high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

// Whether Linux lets this process use tiles: their state is large, and is saved only for those who ask.
bool tiles_permitted() noexcept {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

Level highest_level() noexcept {
  const Leaf one = cpuid(1, 0);
  const Leaf seven = cpuid(7, 0);
  const Leaf seven_one = seven.eax >= 1 ? cpuid(7, 1) : Leaf{};
  const bool osxsave = has(one.ecx, bit(27));
  const std::uint64_t states = osxsave ? saved_states() : 0;
  constexpr std::uint64_t kYmm = 0x06;       // xmm, ymm
  constexpr std::uint64_t kZmm = 0xe6;       // and opmask, upper zmm, zmm16-31
  constexpr std::uint64_t kTiles = 0x60000;  // their shapes and their data

  const bool fma_avx_f16c = has(one.ecx, bit(12) | bit(28) | bit(29));
  const bool avx2 = has(seven.ebx, bit(5)) && fma_avx_f16c && (states & kYmm) == kYmm;
  const bool f_dq_bw_vl = has(seven.ebx, bit(16) | bit(17) | bit(30) | bit(31));
  const bool avx512 = avx2 && f_dq_bw_vl && (states & kZmm) == kZmm;
  const bool vnni = avx512 && has(seven.ecx, bit(11));
  const bool bf16 = vnni && has(seven_one.eax, bit(5));
  const bool amx_bf16_tile_int8 = has(seven.edx, bit(22) | bit(24) | bit(25));
  if (bf16 && amx_bf16_tile_int8 && (states & kTiles) == kTiles && tiles_permitted())
    return Level::Amx;
  if (bf16) return Level::Avx512Bf16;
  if (vnni) return Level::Avx512Vnni;
  if (avx512) return Level::Avx512;
  return avx2 ? Level::Avx2 : Level::Scalar;
}

Level detect_level() noexcept {
  const Level highest = highest_level();
  return highest < Level::Avx512Bf16 ? highest : Level::Avx512Bf16;
}

std::string_view level_name(Level level) noexcept { return kNames[static_cast<int>(level)]; }

std::optional<Level> parse_level(std::string_view name) noexcept {
  for (int i = 0; i <= static_cast<int>(Level::Amx); ++i) {
    if (kNames[i] == name) return static_cast<Level>(i);
  }
  return std::nullopt;
}

}  // namespace difflet::cpu
