#include "difflet/bench/arithmetic.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "difflet/backends/cpu/kernels/level.h"
#include "difflet/base/error.h"

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
#define DIFFLET_BYTES(R, N) "vpdpbusd %%" R "14, %%" R "15, %%" R #N "\n"
#define DIFFLET_WORDS(R, N) \
  "vpmaddwd %%" R "14, %%" R "15, %%" R #N "\nvpaddd %%" R "15, %%" R #N ", %%" R #N "\n"
#define DIFFLET_MUL_ADD(R, N) "mulps %%" R "14, %%" R #N "\naddps %%" R "15, %%" R #N "\n"
// All but xmm end in vzeroupper: code for older chips runs slowly with dirty upper halves.
#define DIFFLET_LOOP(NAME, OP, R, END)                        \
  void NAME(long rounds) {                                    \
    __asm__ volatile(                                         \
        "xorps %%xmm14, %%xmm14\nxorps %%xmm15, %%xmm15\n"    \
        "1:\n" DIFFLET_FOURTEEN(OP, R) "dec %0\njnz 1b\n" END \
        : "+r"(rounds)::DIFFLET_CLOBBERS);                    \
  }
DIFFLET_LOOP(f32_xmm, DIFFLET_MUL_ADD, "xmm", "")
DIFFLET_LOOP(f32_ymm, DIFFLET_FMA, "ymm", "vzeroupper\n")
DIFFLET_LOOP(f32_zmm, DIFFLET_FMA, "zmm", "vzeroupper\n")
DIFFLET_LOOP(int16_ymm, DIFFLET_WORDS, "ymm", "vzeroupper\n")
DIFFLET_LOOP(int16_zmm, DIFFLET_WORDS, "zmm", "vzeroupper\n")
DIFFLET_LOOP(bf16_zmm, DIFFLET_DOT, "zmm", "vzeroupper\n")
DIFFLET_LOOP(int8_zmm, DIFFLET_BYTES, "zmm", "vzeroupper\n")

// LDTILECFG's operand: eight tiles of 16 rows x 64 bytes.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);

// Tiles 0-3 add up the products of 4, 5 with 6, 7. No compiler keeps anything in tiles unasked, so they
// need no clobbers.
#define DIFFLET_TILES(NAME, OP)                                                 \
  void NAME(long rounds) {                                                      \
    const TileShapes shapes;                                                    \
    __asm__ volatile(                                                           \
        "ldtilecfg %1\n"                                                        \
        "tilezero %%tmm0\ntilezero %%tmm1\ntilezero %%tmm2\ntilezero %%tmm3\n"  \
        "tilezero %%tmm4\ntilezero %%tmm5\ntilezero %%tmm6\ntilezero %%tmm7\n"  \
        "1:\n" OP " %%tmm6, %%tmm4, %%tmm0\n" OP " %%tmm7, %%tmm4, %%tmm1\n" OP \
        " %%tmm6, %%tmm5, %%tmm2\n" OP                                          \
        " %%tmm7, %%tmm5, %%tmm3\ndec %0\njnz 1b\n"                             \
        "tilerelease\n"                                                         \
        : "+r"(rounds)                                                          \
        : "m"(shapes)                                                           \
        : "cc", "memory");                                                      \
  }
DIFFLET_TILES(bf16_amx, "tdpbf16ps")
DIFFLET_TILES(int8_amx, "tdpbssd")

struct Loop {
  std::string_view name;
  void (*run)(long rounds);
  double operations;  // a round
  long rounds;        // of a window, 1-5 ms
};
constexpr long kRounds = 600'000;
constexpr Loop kLoops[] = {{"f32 xmm", f32_xmm, 14.0 * 8, kRounds},
                           {"f32 ymm", f32_ymm, 14.0 * 16, kRounds},
                           {"f32 zmm", f32_zmm, 14.0 * 32, kRounds},
                           {"int16 ymm", int16_ymm, 14.0 * 32, kRounds},
                           {"int16 zmm", int16_zmm, 14.0 * 64, kRounds},
                           {"bf16 zmm", bf16_zmm, 14.0 * 64, kRounds},
                           {"int8 zmm", int8_zmm, 14.0 * 128, kRounds},
                           {"bf16 amx", bf16_amx, 4.0 * 16 * 16 * 32 * 2, kRounds / 10},
                           {"int8 amx", int8_amx, 4.0 * 16 * 16 * 64 * 2, kRounds / 10}};

const Loop& loop_of(Arithmetic arithmetic) { return kLoops[static_cast<std::size_t>(arithmetic)]; }

struct Features {
  bool vnni = false, tiles = false, tiles_bf16 = false, tiles_int8 = false;
};

Features features() noexcept {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) {
    return {};
  }
  const auto bit = [](unsigned word, unsigned n) { return (word >> n & 1U) != 0; };
  return {.vnni = bit(ecx, 11),
          .tiles = bit(edx, 24),
          .tiles_bf16 = bit(edx, 22),
          .tiles_int8 = bit(edx, 25)};
}

// The kernel lets a process touch the tiles only after it asked, and refuses where it does not save
// them. Threads that run already are covered too.
bool tiles_permitted() noexcept {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

std::string_view arithmetic_name(Arithmetic arithmetic) noexcept {
  return loop_of(arithmetic).name;
}

bool chip_has(Arithmetic arithmetic) noexcept {
  const cpu::Level level = cpu::detect_level();
  const Features f = features();
  switch (arithmetic) {
    case Arithmetic::F32Xmm:
      return true;
    case Arithmetic::F32Ymm:
    case Arithmetic::Int16Ymm:
      return level >= cpu::Level::Avx2;
    case Arithmetic::F32Zmm:
    case Arithmetic::Int16Zmm:
      return level >= cpu::Level::Avx512;
    case Arithmetic::Bf16Zmm:
      return level >= cpu::Level::Avx512Bf16;
    case Arithmetic::Int8Zmm:
      return level >= cpu::Level::Avx512 && f.vnni;
    case Arithmetic::Bf16Amx:
      return f.tiles && f.tiles_bf16 && tiles_permitted();
    case Arithmetic::Int8Amx:
      return f.tiles && f.tiles_int8 && tiles_permitted();
  }
  return false;
}

Measured measure_arithmetic(Arithmetic arithmetic, int threads) {
  check(chip_has(arithmetic), ErrorCode::Unsupported, "this chip has no {} arithmetic",
        arithmetic_name(arithmetic));
  const Loop& loop = loop_of(arithmetic);
  const Work work = [&loop] {
    loop.run(loop.rounds);
    return static_cast<double>(loop.rounds) * loop.operations;
  };
  return measure(std::vector<Work>(static_cast<std::size_t>(threads), work), {});
}

}  // namespace difflet::bench
