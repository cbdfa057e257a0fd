// Speed of the linear and attention kernels at FLUX width, against the ceiling of their level
// measured around each figure. Rates are work per CPU second: a busy machine does not matter much.
//   kernels_bench [--level L] [--threads N] [--tokens T] [--filter TEXT] [--reps R]
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bench/huge_buffer.h"
#include <fmt/format.h>

#include "difflet/backends/cpu/kernels/attention.h"
#include "difflet/backends/cpu/kernels/linear.h"
#include "difflet/bench/ceilings.h"
#include "difflet/bench/roofline.h"

namespace difflet::bench {
namespace {

using cpu::Act;
using cpu::AttentionArgs;
using cpu::AttentionKernel;
using cpu::Elem;
using cpu::Level;
using cpu::LinearArgs;
using cpu::LinearDesc;
using cpu::LinearKernel;
using cpu::Products;

struct Options {
  Level level = cpu::detect_level();
  int threads = 1;
  std::int64_t tokens = 1536;
  int reps = 3;
  std::string filter;
};

std::uint64_t next_random(std::uint64_t* state) {
  *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
  return *state >> 33;
}

// Uniform in [-scale, scale).
HugeBuffer random_tensor(std::int64_t count, Elem elem, float scale) {
  const std::size_t size = static_cast<std::size_t>(count) * cpu::elem_bytes(elem);
  HugeBuffer buffer(size);
  void* p = buffer.data();
  auto state = static_cast<std::uint64_t>(count);
  for (std::int64_t i = 0; i < count; ++i) {
    const float v =
        (static_cast<float>(next_random(&state) & 0xffffff) / 8388608.0F - 1.0F) * scale;
    std::uint32_t bits = 0;
    std::memcpy(&bits, &v, 4);
    if (elem == Elem::F32) {
      static_cast<float*>(p)[i] = v;
    } else if (elem == Elem::I8) {
      static_cast<std::int8_t*>(p)[i] = static_cast<std::int8_t>(v * 127.0F / scale);
    } else {
      static_cast<std::uint16_t*>(p)[i] = static_cast<std::uint16_t>(bits >> 16);
    }
  }
  return buffer;
}

// Threads take tasks from a counter, as the executor does.
void run_tasks(int threads, std::int64_t tasks, std::size_t scratch_bytes,
               const std::function<void(std::int64_t, void*)>& task) {
  static std::vector<HugeBuffer> scratch(64);
  std::atomic<std::int64_t> next{0};
  const auto work = [&](std::size_t thread) {
    HugeBuffer& mine = scratch[thread];
    if (mine.size() < scratch_bytes) mine = HugeBuffer(scratch_bytes);
    for (std::int64_t i = next++; i < tasks; i = next++) task(i, mine.data());
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, static_cast<std::size_t>(t));
  work(0);
  for (std::thread& t : others) t.join();
}

// CPU seconds of one call; prints the rate beside the ceiling.
struct Rate {
  double seconds = 0, gflop = 0, ceiling = 0;
};
Rate measure(const Options& o, const std::string& name, Arithmetic arithmetic, double gflop,
             const std::function<void()>& call) {
  call();
  std::vector<Rate> rates;
  for (int r = 0; r < o.reps; ++r) {
    const double before = ceiling_gflops(arithmetic, o.threads);
    const double start = process_cpu_seconds();
    call();
    const double spent = process_cpu_seconds() - start;
    const double after = ceiling_gflops(arithmetic, o.threads);
    rates.push_back({spent, gflop, (before + after) / 2});
  }
  std::sort(rates.begin(), rates.end(), [](const Rate& a, const Rate& b) {
    return a.seconds * a.ceiling < b.seconds * b.ceiling;
  });
  const Rate& m = rates[rates.size() / 2];
  const auto percent = [](const Rate& r) { return 100 * r.gflop / r.seconds / r.ceiling; };
  fmt::print("{:<58} T{} {:8.1f} GFLOP/s a core  ceiling {:6.1f}  {:5.1f} % (best {:5.1f})\n", name,
             o.threads, m.gflop / m.seconds, m.ceiling, percent(m), percent(rates.front()));
  std::fflush(stdout);
  return m;
}

const LinearKernel* find_linear(Level level, const LinearDesc& d) {
  const cpu::LinearKernelList list = cpu::linear_kernels();
  for (std::size_t i = 0; i < list.size; ++i) {
    if (list.items[i]->level <= level && list.items[i]->refuse(d) == nullptr) return list.items[i];
  }
  return nullptr;
}

// How the products of a model are multiplied.
struct Numbers {
  Elem x = Elem::F32, w = Elem::F32;
  Products products = Products::Floats;

  std::string_view name() const {
    if (w == Elem::I8) return products == Products::Bytes ? "w8a8" : "w8a16";
    return w == Elem::F32 ? "f32" : "bf16";
  }
};

struct LinearCase {
  std::int64_t m = 0, k = 0, n = 0;
  Act act = Act::None;
  bool gate = false;  // times a row, plus a residual
};

Rate bench_linear(const Options& o, const Numbers& numbers, const LinearCase& c) {
  const auto [x, w, products] = numbers;
  const LinearDesc desc{c.n, c.k, x, w, x, products};
  const LinearKernel* kernel = find_linear(o.level, desc);
  const std::string name =
      fmt::format("{} x {} M{} K{} N{}{}{}", kernel->name, x == Elem::F32 ? "f32" : "bf16", c.m,
                  c.k, c.n, c.act == Act::None ? "" : " gelu", c.gate ? " gate" : "");
  if (name.find(o.filter) == std::string::npos) return {};
  const HugeBuffer packed(kernel->packed_bytes(desc));
  double pack_seconds = 0;
  {
    const HugeBuffer weights = random_tensor(c.n * c.k, w, 0.05F);
    std::memset(packed.data(), 0, packed.size());
    const double start = process_cpu_seconds();
    kernel->pack(desc, weights.data(), w, 0, c.n, packed.data());
    pack_seconds = process_cpu_seconds() - start;
  }
  const HugeBuffer input = random_tensor(c.m * c.k, x, 1.0F);
  const HugeBuffer output = random_tensor(c.m * c.n, x, 1.0F);
  const HugeBuffer scale = random_tensor(c.n, Elem::F32, 0.001F);
  const HugeBuffer bias = random_tensor(c.n, Elem::F32, 1.0F);
  const HugeBuffer gate = random_tensor(c.n, Elem::F32, 0.1F);
  LinearArgs a;
  a.m = c.m, a.n = c.n, a.k = c.k;
  a.x = {input.data(), c.k, x};
  a.packed = packed.data();
  if (w == Elem::I8) a.scale = static_cast<const float*>(scale.data());
  a.bias = static_cast<const float*>(bias.data());
  a.act = c.act;
  a.y = {output.data(), c.n, x};
  if (c.gate) {
    a.mul = {gate.data(), 0, Elem::F32};
    a.residual = {output.data(), c.n, x};
  }
  const std::int64_t tasks = kernel->tasks(a, o.threads);
  const double flop = 2e-9 * static_cast<double>(c.m) * static_cast<double>(c.n * c.k);
  const Arithmetic arithmetic = arithmetic_of_kernel(kernel->name, cpu::level_name(kernel->level));
  const Rate rate = measure(o, name, arithmetic, flop, [&] {
    run_tasks(o.threads, tasks, kernel->scratch_bytes(a, o.threads),
              [&](std::int64_t i, void* scratch) { kernel->run(a, i, tasks, scratch); });
  });
  if (c.m < 64) {
    const double gigabytes = static_cast<double>(kernel->packed_bytes(desc)) * 1e-9;
    fmt::print("    weights read at {:.1f} GB/s a core, packed at {:.1f} GB/s\n",
               gigabytes / rate.seconds, gigabytes / pack_seconds);
  }
  return rate;
}

const AttentionKernel* find_attention(Level level, const AttentionArgs& a) {
  const cpu::AttentionKernelList list = cpu::attention_kernels();
  for (std::size_t i = 0; i < list.size; ++i) {
    if (list.items[i]->level <= level && list.items[i]->refuse(a) == nullptr) return list.items[i];
  }
  return nullptr;
}

Rate bench_attention(const Options& o, Elem elem, std::int64_t heads, std::int64_t tokens,
                     std::int64_t dim) {
  AttentionArgs a;
  a.heads = a.kv_heads = heads;
  a.q_len = a.k_len = tokens;
  a.head_dim = dim;
  a.elem = elem;
  const std::int64_t width = heads * dim;
  const cpu::Heads base{nullptr, 0, 3 * width, dim};
  const HugeBuffer input = random_tensor(tokens * 3 * width, elem, 3.0F);
  const HugeBuffer output = random_tensor(tokens * width, elem, 1.0F);
  const char* qkv = static_cast<const char*>(input.data());
  const auto bytes = static_cast<std::int64_t>(cpu::elem_bytes(elem));
  a.q = a.k = a.v = base;
  a.q.data = qkv;
  a.k.data = qkv + width * bytes;
  a.v.data = qkv + 2 * width * bytes;
  a.y = output.data();
  a.y_token = width;
  a.y_head = dim;
  a.scale = 0.08838835F;
  const AttentionKernel* kernel = find_attention(o.level, a);
  const std::string name = fmt::format("{} {} H{} T{} D{}", kernel->name,
                                       elem == Elem::F32 ? "f32" : "bf16", heads, tokens, dim);
  if (name.find(o.filter) == std::string::npos) return {};
  const std::int64_t tasks = kernel->tasks(a, o.threads);
  const double flop =
      4e-9 * static_cast<double>(heads * dim) * static_cast<double>(tokens * tokens);
  const Arithmetic arithmetic = arithmetic_of_level(cpu::level_name(kernel->level), DType::BF16);
  return measure(o, name, arithmetic, flop, [&] {
    run_tasks(o.threads, tasks, kernel->scratch_bytes(a, o.threads),
              [&](std::int64_t i, void* scratch) { kernel->run(a, i, tasks, scratch); });
  });
}

// The products and the attention of FLUX.1: 19 double blocks (their text and image halves, equal in
// width, taken together) and 38 single blocks.
void bench_flux(const Options& o, const Numbers& n) {
  constexpr std::int64_t kWidth = 3072;
  const std::int64_t m = o.tokens;
  double seconds = 0;
  double gflop = 0;
  double ceiling_gflop = 0;  // what the ceiling would have done in those seconds
  const auto add = [&](int times, const Rate& r) {
    seconds += times * r.seconds;
    gflop += times * r.gflop;
    ceiling_gflop += times * r.seconds * r.ceiling;
  };
  add(19, bench_linear(o, n, {m, kWidth, 3 * kWidth}));
  add(19, bench_linear(o, n, {m, kWidth, kWidth, Act::None, true}));
  add(19, bench_linear(o, n, {m, kWidth, 4 * kWidth, Act::GeluTanh}));
  add(19, bench_linear(o, n, {m, 4 * kWidth, kWidth, Act::None, true}));
  add(38, bench_linear(o, n, {m, kWidth, 7 * kWidth, Act::GeluTanh}));
  add(38, bench_linear(o, n, {m, 5 * kWidth, kWidth, Act::None, true}));
  add(57, bench_attention(o, n.x, 24, m, 128));
  fmt::print("{} x {} w {}: the whole stack T{} tokens {}: {:.1f} GFLOP/s a core, {:.1f} %\n\n",
             level_name(o.level), n.x == Elem::F32 ? "f32" : "bf16", n.name(), o.threads, m,
             gflop / seconds, 100 * gflop / ceiling_gflop);
}

void bench_small(const Options& o, const Numbers& n) {
  for (const std::int64_t m : {1, 4, 8, 28}) bench_linear(o, n, {m, 3072, 18432});
}

bool parse(int argc, char** argv, Options* o) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    const std::string value = argv[i + 1];
    if (key == "--threads") {
      o->threads = std::stoi(value);
    } else if (key == "--tokens") {
      o->tokens = std::stoi(value);
    } else if (key == "--reps") {
      o->reps = std::stoi(value);
    } else if (key == "--filter") {
      o->filter = value;
    } else if (key == "--level" && cpu::parse_level(value)) {
      o->level = *cpu::parse_level(value);
    } else {
      return false;
    }
  }
  return argc % 2 == 1;
}

}  // namespace
}  // namespace difflet::bench

int main(int argc, char** argv) {
  using difflet::bench::Numbers;
  using difflet::cpu::Elem;
  using difflet::cpu::Products;
  difflet::bench::Options o;
  if (!difflet::bench::parse(argc, argv, &o)) {
    fmt::print(stderr,
               "kernels_bench [--level L] [--threads N] [--tokens T] [--filter TEXT] "
               "[--reps R]; L at most {}\n",
               level_name(difflet::cpu::highest_level()));
    return 2;
  }
  if (o.level > difflet::cpu::highest_level()) {
    fmt::print(stderr, "kernels_bench: level {} is not available: this chip has {}\n",
               level_name(o.level), level_name(difflet::cpu::highest_level()));
    return 4;
  }
  std::vector<Numbers> all{
      {Elem::Bf16, Elem::Bf16}, {Elem::Bf16, Elem::I8}, {Elem::Bf16, Elem::I8, Products::Bytes}};
  if (o.level < difflet::cpu::Level::Avx512Bf16) all.push_back({Elem::F32, Elem::F32});
  for (const Numbers& numbers : all) difflet::bench::bench_flux(o, numbers);
  for (const Numbers& numbers : all) difflet::bench::bench_small(o, numbers);
  return 0;
}
