#include "cases.h"

namespace difflet::amx_guest {
namespace {

using cpu::Act;
using cpu::Elem;

std::uint64_t state = 1;

float uniform(float scale) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (static_cast<float>((state >> 40) & 0xffffff) / 8388608.0F - 1.0F) * scale;
}

float* random_f32(std::int64_t count, float scale) {
  auto* const p = reinterpret_cast<float*>(allocate(static_cast<std::size_t>(count) * 4));
  for (std::int64_t i = 0; i < count; ++i) p[i] = uniform(scale);
  return p;
}

std::int8_t* random_bytes(std::int64_t count) {
  auto* const p = reinterpret_cast<std::int8_t*>(allocate(static_cast<std::size_t>(count)));
  for (std::int64_t i = 0; i < count; ++i) p[i] = static_cast<std::int8_t>(uniform(127.9F));
  return p;
}

struct LinearCase {
  std::int64_t m = 0, n = 0, k = 0;
  Act act = Act::None;
  bool gate = false;
};

const char* name_of(const cpu::LinearKernel& kernel) {
  if (!kernel.bytes) return "linear";
  return kernel.products == cpu::Products::Bytes ? "w8a8" : "w8a16";
}

void run_case(const cpu::LinearKernel& kernel, int number, const LinearCase& c) {
  const Elem elem = kernel.bytes ? Elem::I8 : Elem::Bf16;
  const cpu::LinearDesc desc{c.n, c.k, Elem::Bf16, elem, Elem::Bf16, kernel.products};
  char* const packed = allocate(kernel.packed_bytes(desc));
  const void* const weights =
      kernel.bytes ? static_cast<const void*>(random_bytes(c.n * c.k)) : random_bf16(c.n * c.k, 1);
  kernel.pack(desc, weights, elem, 0, c.n, packed);
  cpu::LinearArgs a;
  if (kernel.bytes) a.scale = random_f32(c.n, 0.01F);
  if (kernel.products == cpu::Products::Bytes && c.gate) a.smooth = random_f32(c.k, 2);
  a.m = c.m, a.n = c.n, a.k = c.k;
  a.x = {random_bf16(c.m * c.k, 1), c.k, Elem::Bf16};
  a.packed = packed;
  a.bias = random_f32(c.n, 1);
  a.act = c.act;
  if (c.gate) {
    a.mul = {random_bf16(c.n, 1), 0, Elem::Bf16};
    a.residual = {random_bf16(c.m * c.n, 1), c.n, Elem::Bf16};
  }
  const std::size_t bytes = static_cast<std::size_t>(c.m * c.n) * 2;
  char* const y = allocate(bytes);
  a.y = {y, c.n, Elem::Bf16};
  char* const scratch = allocate(kernel.scratch_bytes(a, 1));
  const std::int64_t tasks = kernel.tasks(a, 1);
  for (std::int64_t t = 0; t < tasks; ++t) kernel.run(a, t, tasks, scratch);
  put_result(name_of(kernel), number, y, bytes);
  free_all();
}

struct AttentionCase {
  std::int64_t heads = 0, q_len = 0, k_len = 0, dim = 0;
  float spread = 1.5F;  // of q and k
  bool causal = false, bias = false, bounds = false;
};

void run_case(const cpu::AttentionKernel& kernel, int number, const AttentionCase& c) {
  const std::int64_t width = c.heads * c.dim;
  cpu::AttentionArgs a;
  a.heads = a.kv_heads = c.heads;
  a.q_len = c.q_len, a.k_len = c.k_len, a.head_dim = c.dim;
  a.elem = Elem::Bf16;
  a.q = {random_bf16(c.q_len * width, c.spread), 0, width, c.dim};
  a.k = {random_bf16(c.k_len * width, c.spread), 0, width, c.dim};
  a.v = {random_bf16(c.k_len * width, 1), 0, width, c.dim};
  a.scale = 0.1F;
  a.causal = c.causal;
  if (c.bias) {
    a.bias = random_f32(c.heads * c.q_len * c.k_len, 2);
    a.bias_head = c.q_len * c.k_len;
    a.bias_query = c.k_len;
  }
  if (c.bounds) {
    const std::size_t size = static_cast<std::size_t>(c.q_len) * sizeof(std::int32_t);
    auto* const low = reinterpret_cast<std::int32_t*>(allocate(size));
    auto* const high = reinterpret_cast<std::int32_t*>(allocate(size));
    for (std::int64_t i = 0; i < c.q_len; ++i) {
      low[i] = static_cast<std::int32_t>(i % c.k_len);
      high[i] = low[i] + 1 + static_cast<std::int32_t>(i * 37 % (c.k_len - low[i]));
    }
    a.key_min = low;
    a.key_max = high;
  }
  const std::size_t bytes = static_cast<std::size_t>(c.q_len * width) * 2;
  char* const y = allocate(bytes);
  a.y = y;
  a.y_token = width;
  a.y_head = c.dim;
  char* const scratch = allocate(kernel.scratch_bytes(a, 1));
  const std::int64_t tasks = kernel.tasks(a, 1);
  for (std::int64_t t = 0; t < tasks; ++t) kernel.run(a, t, tasks, scratch);
  put_result("attention", number, y, bytes);
  free_all();
}

struct WinogradCase {
  std::int64_t in_channels = 0, out_channels = 0, height = 0, width = 0;
  bool residual = false;
  cpu::Before before = cpu::Before::Nothing;
};

void run_case(const cpu::WinogradKernel& kernel, int number, const WinogradCase& c) {
  const std::int64_t scale = c.before == cpu::Before::Doubling ? 2 : 1;
  cpu::WinogradArgs a;
  a.desc = {c.in_channels, c.out_channels, c.before};
  a.height = c.height, a.width = c.width;
  a.out_height = c.height * scale, a.out_width = c.width * scale;
  a.pad_top = a.pad_left = 1;
  char* const packed = allocate(kernel.packed_bytes(a.desc));
  kernel.pack(a.desc, random_f32(c.out_channels * c.in_channels * 9, 1), packed);
  const std::int64_t pixels = a.out_height * a.out_width;
  a.x = random_bf16(c.height * c.width * c.in_channels, 1);
  a.packed = packed;
  a.bias = random_f32(c.out_channels, 1);
  if (c.residual) a.residual = random_bf16(pixels * c.out_channels, 1);
  const std::size_t bytes = static_cast<std::size_t>(pixels * c.out_channels) * 2;
  char* const y = allocate(bytes);
  a.y = reinterpret_cast<std::uint16_t*>(y);
  char* const scratch = allocate(kernel.scratch_bytes(a.desc));
  for (std::int64_t t = 0; t < kernel.tasks(a); ++t) kernel.run(a, t, scratch);
  put_result("winograd", number, y, bytes);
  free_all();
}

void put_number(std::uint64_t v, int digits) {
  for (int i = digits - 1; i >= 0; --i) put("0123456789abcdef"[(v >> (4 * i)) & 15]);
}

}  // namespace

void put_text(const char* text) {
  while (*text != 0) put(*text++);
}

void put_result(const char* name, int number, const void* data, std::size_t bytes) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (std::size_t i = 0; i < bytes; ++i) {
    hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211ULL;
  }
  put_text(name);
  put(' ');
  put_number(static_cast<std::uint64_t>(number), 2);
  put(' ');
  put_number(hash, 16);
  put('\n');
}

std::uint16_t* random_bf16(std::int64_t count, float scale) {
  auto* const p = reinterpret_cast<std::uint16_t*>(allocate(static_cast<std::size_t>(count) * 2));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = __builtin_bit_cast(std::uint32_t, uniform(scale));
    p[i] = static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
  return p;
}

void run_linear(const cpu::LinearKernel& kernel) {
  const LinearCase cases[] = {{32, 32, 32},
                              {3, 70, 100},
                              {100, 130, 1100, Act::GeluTanh, true},
                              {300, 65, 200, Act::Silu, true},
                              {33, 4200, 64},
                              {300, 65, 3300},
                              {16, 96, 2100, Act::GeluErf}};
  int number = 0;
  for (const LinearCase& c : cases) run_case(kernel, ++number, c);
}

void run_attention(const cpu::AttentionKernel& kernel) {
  const AttentionCase cases[] = {{1, 32, 32, 32, 1},
                                 {2, 70, 300, 64},
                                 {1, 129, 290, 128},
                                 {1, 100, 100, 96, 1.5F, true},
                                 {2, 65, 150, 64, 1.5F, false, true},
                                 {1, 65, 700, 32, 1.5F, false, false, true},
                                 {1, 40, 600, 256, 3},
                                 {1, 545, 280, 32, 6}};
  int number = 0;
  for (const AttentionCase& c : cases) run_case(kernel, ++number, c);
}

void run_winograd(const cpu::WinogradKernel& kernel) {
  using cpu::Before;
  const WinogradCase cases[] = {{32, 32, 6, 5},
                                {64, 80, 9, 40, true},
                                {32, 48, 7, 6, false, Before::Doubling},
                                {128, 32, 17, 20, true, Before::Doubling}};
  int number = 0;
  for (const WinogradCase& c : cases) run_case(kernel, ++number, c);
}

}  // namespace difflet::amx_guest
