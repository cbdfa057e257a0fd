#include "difflet/bench/streams.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "difflet/backends/cpu/kernels/level.h"
#include "difflet/base/error.h"
#include "difflet/base/huge_buffer.h"

namespace difflet::bench {
namespace {

// One round of a loop takes eight registers, the widest of 64 bytes.
constexpr std::size_t kBlock = 512;

#define DIFFLET_CLOBBERS \
  "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm14"
#define DIFFLET_EIGHT(OP, R, W) \
  OP(R, W, 0) OP(R, W, 1) OP(R, W, 2) OP(R, W, 3) OP(R, W, 4) OP(R, W, 5) OP(R, W, 6) OP(R, W, 7)

// Offsets are sums that the assembler works out: "3*64(%0)".
#define DIFFLET_LOAD_V(R, W, N) "vmovaps " #N "*" W "(%1), %%" R #N "\n"
#define DIFFLET_LOAD_S(R, W, N) "movaps " #N "*" W "(%1), %%" R #N "\n"
#define DIFFLET_STORE_V(R, W, N) "vmovntps %%" R #N ", " #N "*" W "(%0)\n"
#define DIFFLET_STORE_S(R, W, N) "movntps %%" R #N ", " #N "*" W "(%0)\n"
#define DIFFLET_ADD_V(R, W, N) "vfmadd231ps " #N "*" W "(%2), %%" R "14, %%" R #N "\n"
#define DIFFLET_ADD_S(R, W, N) \
  "movaps " #N "*" W "(%2), %%xmm8\nmulps %%xmm14, %%xmm8\naddps %%xmm8, %%" R #N "\n"

// Reads `bytes` bytes, a multiple of kBlock, `passes` times.
#define DIFFLET_READ(NAME, R, W, LOAD, END)                                 \
  void NAME(const std::byte* from, std::size_t bytes, std::size_t passes) { \
    const std::byte* at = nullptr;                                          \
    std::size_t left = 0;                                                   \
    __asm__ volatile("2:\nmov %4, %1\nmov %3, %0\n1:\n" DIFFLET_EIGHT(      \
                         LOAD, R, W) "add $8*" W ", %1\nsub $8*" W          \
                                     ", %0\njnz 1b\ndec %2\njnz 2b\n" END   \
                     : "=&r"(left), "=&r"(at), "+r"(passes)                 \
                     : "r"(bytes), "r"(from)                                \
                     : DIFFLET_CLOBBERS);                                   \
  }
// To `a`, from `b` and `c`, of `bytes` bytes each.
#define DIFFLET_STREAM(NAME, R, W, BODY, END)                                             \
  void NAME(std::byte* a, const std::byte* b, const std::byte* c, std::size_t bytes) {    \
    __asm__ volatile("xorps %%xmm14, %%xmm14\n1:\n" BODY "add $8*" W ", %0\nadd $8*" W    \
                     ", %1\nadd $8*" W ", %2\nsub $8*" W ", %3\njnz 1b\nsfence\n" END     \
                     : "+r"(a), "+r"(b), "+r"(c), "+r"(bytes)::DIFFLET_CLOBBERS, "xmm8"); \
  }
#define DIFFLET_STREAMS(S, R, W, LOAD, STORE, ADD, END)                                         \
  DIFFLET_READ(read_##S, R, W, LOAD, END)                                                       \
  DIFFLET_STREAM(copy_##S, R, W, DIFFLET_EIGHT(LOAD, R, W) DIFFLET_EIGHT(STORE, R, W), END)     \
  DIFFLET_STREAM(triad_##S, R, W,                                                               \
                 DIFFLET_EIGHT(LOAD, R, W) DIFFLET_EIGHT(ADD, R, W) DIFFLET_EIGHT(STORE, R, W), \
                 END)
DIFFLET_STREAMS(xmm, "xmm", "16", DIFFLET_LOAD_S, DIFFLET_STORE_S, DIFFLET_ADD_S, "")
DIFFLET_STREAMS(ymm, "ymm", "32", DIFFLET_LOAD_V, DIFFLET_STORE_V, DIFFLET_ADD_V, "vzeroupper\n")
DIFFLET_STREAMS(zmm, "zmm", "64", DIFFLET_LOAD_V, DIFFLET_STORE_V, DIFFLET_ADD_V, "vzeroupper\n")

struct Streams {
  void (*read)(const std::byte* from, std::size_t bytes, std::size_t passes);
  void (*copy)(std::byte* a, const std::byte* b, const std::byte* c, std::size_t bytes);
  void (*triad)(std::byte* a, const std::byte* b, const std::byte* c, std::size_t bytes);
};

Streams best_streams() {
  const cpu::Level level = cpu::detect_level();
  if (level >= cpu::Level::Avx512) {
    return {read_zmm, copy_zmm, triad_zmm};
  }
  return level >= cpu::Level::Avx2 ? Streams{read_ymm, copy_ymm, triad_ymm}
                                   : Streams{read_xmm, copy_xmm, triad_xmm};
}

// Touched memory of one page size, aligned to it.
class Pages {
 public:
  Pages(std::size_t bytes, PageSize size) : bytes_(bytes) {
    if (size == PageSize::Huge) {
      huge_ = HugeBuffer(bytes);
      data_ = huge_.data();
    } else {
      void* got =
          ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      check(got != MAP_FAILED, ErrorCode::ResourceExhausted, "no memory of {} bytes", bytes);
      (void)::madvise(got, bytes, MADV_NOHUGEPAGE);
      data_ = static_cast<std::byte*>(got);
    }
    std::memset(data_, 0, bytes);
  }
  ~Pages() {
    if (huge_.data() == nullptr) {
      ::munmap(data_, bytes_);
    }
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::size_t bytes_;
  HugeBuffer huge_;
  std::byte* data_ = nullptr;
};

// Of a cache of the first core as sysfs describes it, in bytes: size is "32768K". 0 when that is not a
// data cache of `level` or is not told.
std::size_t size_of_cache(int index, int level) {
  const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
  const auto word = [&folder](const char* file) {
    std::string text;
    std::ifstream(folder + file) >> text;
    return text;
  };
  if (word("level") != std::to_string(level) || word("type") == "Instruction") {
    return 0;
  }
  constexpr std::size_t kKilo = 1024;
  return std::strtoull(word("size").c_str(), nullptr, 10) * kKilo;
}

std::size_t cache_size(int level, std::size_t usual) {
  constexpr int kIndices = 8;
  for (int index = 0; index < kIndices; ++index) {
    if (const std::size_t bytes = size_of_cache(index, level); bytes > 0) {
      return bytes;
    }
  }
  return usual;
}

}  // namespace

std::string_view access_name(Access access) noexcept {
  constexpr std::string_view kNames[] = {"read", "copy", "triad"};
  return kNames[static_cast<std::size_t>(access)];
}

CacheSizes cache_sizes() {
  constexpr std::size_t kKilo = 1024;
  return {.l1 = cache_size(1, 32 * kKilo),
          .l2 = cache_size(2, 1024 * kKilo),
          .l3 = cache_size(3, 32 * 1024 * kKilo)};
}

Measured measure_cache(std::size_t bytes, int threads, Resource resource) {
  constexpr std::size_t kWindow = std::size_t{128} << 20U;  // bytes read: some 0.5-3 ms
  const std::size_t piece = std::max(kBlock, bytes / kBlock * kBlock);
  const std::size_t passes = std::max<std::size_t>(1, kWindow / piece);
  const std::size_t apart = (piece + 4095) / 4096 * 4096;
  const Pages pages(apart * static_cast<std::size_t>(threads), PageSize::Huge);
  const Streams streams = best_streams();
  std::vector<Work> work;
  for (int t = 0; t < threads; ++t) {
    std::byte* mine = pages.data() + apart * static_cast<std::size_t>(t);
    work.emplace_back([=] {
      streams.read(mine, piece, passes);
      return static_cast<double>(passes * piece);
    });
  }
  return measure(work, {.resource = resource});
}

Measured measure_memory(Access access, PageSize size, int threads) {
  constexpr std::size_t kWindow = std::size_t{8} << 20U;  // of each array, a thread
  const auto count = static_cast<std::size_t>(threads);
  // No window meets what the cache still holds of the last round.
  const std::size_t all = std::max(4 * cache_sizes().l3, 4 * kWindow * count);
  const std::size_t each = (all / count + kWindow - 1) / kWindow * kWindow;
  const std::size_t arrays = static_cast<std::size_t>(access) + 1;
  const Pages pages(arrays * each * count, size);
  const Streams streams = best_streams();
  std::vector<Work> work;
  for (std::size_t t = 0; t < count; ++t) {
    std::byte* first = pages.data() + arrays * each * t;
    work.emplace_back([=, at = std::size_t{0}]() mutable {
      std::byte* const a = first + at;
      if (access == Access::Read) {
        streams.read(a, kWindow, 1);
      } else {
        (access == Access::Copy ? streams.copy : streams.triad)(a, a + each,
                                                                a + (arrays - 1) * each, kWindow);
      }
      at = (at + kWindow) % each;
      return static_cast<double>(arrays * kWindow);
    });
  }
  return measure(work, {.resource = Resource::Shared});
}

}  // namespace difflet::bench
