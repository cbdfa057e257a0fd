// Every attention kernel that this chip can run, and that of the amx level over emulated tiles, against
// softmax attention in double precision.
#include "difflet/backends/cpu/kernels/attention.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "difflet/backends/cpu/kernels/amx_emulated.h"
#include "difflet/backends/cpu/kernels/test_tensor.h"

namespace difflet::cpu {
namespace {

using testing::TestScratch;
using testing::TestTensor;

constexpr Elem kElems[] = {Elem::F32, Elem::Bf16};
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Case {
  std::int64_t batch = 1, heads = 1, kv_heads = 1, q_len = 1, k_len = 1, dim = 1;
  bool causal = false;
  bool bounds = false;  // random [min, max) per query, some empty
  bool bias = false;    // [heads, q, k], with some -inf
  float scale = 0.3F;
  float spread = 1.5F;   // of q and k
  float growth = 0;      // of the keys of batch 0, for each key
  bool by_head = false;  // q, k and v as [batch, heads, tokens, dim]
};

// Operands of a case: k and v interleaved in one buffer as after a fused projection, or (by_head) apart
// and by heads.
class Problem {
 public:
  Problem(const Case& c, Elem elem)
      : c_(c),
        elem_(elem),
        q_(TestTensor::random(c.batch * q_batch(), elem, c.spread, 1)),
        kv_(TestTensor::random(c.batch * kv_batch(), elem, c.spread, 2)),
        bias_(TestTensor::random(c.heads * c.q_len * c.k_len, Elem::F32, 2, 3)) {
    const float step = c.spread * c.growth;
    for (std::int64_t s = 0; step != 0 && s < c.k_len; ++s) {
      for (std::int64_t d = 0; d < c.dim; ++d) {
        const std::int64_t at = key_at(0, s, 0, d);
        kv_.set(at, static_cast<float>(kv_.get(at)) + step * static_cast<float>(s));
      }
    }
    std::mt19937 engine(4);
    for (std::int64_t i = 0; i < c.batch * c.q_len; ++i) {
      const auto a = static_cast<std::int32_t>(engine() % static_cast<unsigned>(c.k_len + 1));
      const auto b = static_cast<std::int32_t>(engine() % static_cast<unsigned>(c.k_len + 1));
      key_min_.push_back(i % 7 == 3 ? a : std::min(a, b));
      key_max_.push_back(i % 7 == 3 ? a : std::max(a, b));
    }
    for (std::int64_t i = 5; i < c.heads * c.q_len * c.k_len; i += 11) {
      bias_.set(i, -std::numeric_limits<float>::infinity());
    }
  }

  std::int64_t q_token() const { return c_.by_head ? c_.dim : c_.heads * c_.dim + 3; }
  std::int64_t kv_token() const { return c_.by_head ? c_.dim : 2 * c_.kv_heads * c_.dim; }
  std::int64_t q_head() const { return c_.by_head ? c_.q_len * c_.dim : c_.dim; }
  std::int64_t kv_head() const { return c_.by_head ? c_.k_len * c_.dim : c_.dim; }
  std::int64_t q_batch() const { return c_.q_len * (c_.heads * c_.dim + (c_.by_head ? 0 : 3)); }
  std::int64_t kv_batch() const { return 2 * c_.k_len * c_.kv_heads * c_.dim; }
  std::int64_t value_offset() const { return c_.kv_heads * kv_head(); }
  std::int64_t key_at(std::int64_t b, std::int64_t s, std::int64_t head, std::int64_t d) const {
    return b * kv_batch() + s * kv_token() + head * kv_head() + d;
  }
  std::int64_t y_token() const { return c_.heads * c_.dim + 1; }

  AttentionArgs args(TestTensor* y) const {
    AttentionArgs a;
    a.batch = c_.batch, a.heads = c_.heads, a.kv_heads = c_.kv_heads;
    a.q_len = c_.q_len, a.k_len = c_.k_len, a.head_dim = c_.dim;
    a.elem = elem_;
    const auto bytes = static_cast<std::int64_t>(elem_bytes(elem_));
    const char* kv = static_cast<const char*>(kv_.data());
    a.q = {q_.data(), q_batch(), q_token(), q_head()};
    a.k = {kv, kv_batch(), kv_token(), kv_head()};
    a.v = {kv + value_offset() * bytes, kv_batch(), kv_token(), kv_head()};
    a.y = y->data();
    a.y_batch = c_.q_len * y_token(), a.y_token = y_token(), a.y_head = c_.dim;
    a.scale = c_.scale;
    a.causal = c_.causal;
    if (c_.bounds) a.key_min = key_min_.data(), a.key_max = key_max_.data();
    if (c_.bias) {
      a.bias = static_cast<const float*>(bias_.data());
      a.bias_head = c_.q_len * c_.k_len;
      a.bias_query = c_.k_len;
    }
    return a;
  }

  TestTensor run(const AttentionKernel& kernel, int threads) const {
    TestTensor y(c_.batch * c_.q_len * y_token(), elem_);
    const AttentionArgs a = args(&y);
    const std::int64_t tasks = kernel.tasks(a, threads);
    TestScratch scratch(kernel.scratch_bytes(a, threads));
    for (std::int64_t t = tasks - 1; t >= 0; --t) kernel.run(a, t, tasks, scratch.data());
    return y;
  }

  void check(const TestTensor& y) const {
    for (std::int64_t b = 0; b < c_.batch; ++b) {
      for (std::int64_t h = 0; h < c_.heads; ++h) {
        for (std::int64_t t = 0; t < c_.q_len; ++t) check_row(y, b, h, t);
      }
    }
  }

 private:
  double score(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t s) const {
    const std::int64_t at = b * c_.q_len + t;
    if (c_.causal && s > t + c_.k_len - c_.q_len) return -kInf;
    if (c_.bounds && (s < key_min_[static_cast<std::size_t>(at)] ||
                      s >= key_max_[static_cast<std::size_t>(at)])) {
      return -kInf;
    }
    const std::int64_t kv = h / (c_.heads / c_.kv_heads);
    double v = 0;
    for (std::int64_t d = 0; d < c_.dim; ++d) {
      v += q_.get(b * q_batch() + t * q_token() + h * q_head() + d) * kv_.get(key_at(b, s, kv, d));
    }
    v *= static_cast<double>(c_.scale);
    return c_.bias ? v + bias_.get((h * c_.q_len + t) * c_.k_len + s) : v;
  }

  void check_row(const TestTensor& y, std::int64_t b, std::int64_t h, std::int64_t t) const {
    std::vector<double> p;
    double top = -kInf;
    for (std::int64_t s = 0; s < c_.k_len; ++s) {
      p.push_back(score(b, h, t, s));
      top = std::max(top, p.back());
    }
    double total = 0;
    for (double& v : p) total += v = top == -kInf ? 0 : std::exp(v - top);
    const std::int64_t kv = h / (c_.heads / c_.kv_heads);
    for (std::int64_t d = 0; d < c_.dim; ++d) {
      double want = 0;
      double size = 0;
      for (std::int64_t s = 0; s < c_.k_len; ++s) {
        const double v = kv_.get(value_offset() + key_at(b, s, kv, d));
        want += total == 0 ? 0 : p[static_cast<std::size_t>(s)] / total * v;
        size += total == 0 ? 0 : p[static_cast<std::size_t>(s)] / total * std::abs(v);
      }
      const double got = y.get((b * c_.q_len + t) * y_token() + h * c_.dim + d);
      // bf16: the probabilities and the result are rounded to 8 bits.
      const double slack = elem_ == Elem::F32 ? 4e-6 * (1 + static_cast<double>(c_.spread)) : 8e-3;
      ASSERT_NEAR(got, want, slack * size + 1e-30)
          << "batch " << b << " head " << h << " query " << t << " element " << d;
    }
  }

  Case c_;
  Elem elem_;
  TestTensor q_, kv_, bias_;
  std::vector<std::int32_t> key_min_, key_max_;
};

void for_each_kernel(Elem elem, std::int64_t dim,
                     const std::function<void(const AttentionKernel&)>& f) {
  const AttentionKernelList list = attention_kernels();
  AttentionArgs a;
  a.elem = elem;
  a.head_dim = dim;
  std::vector<const AttentionKernel*> kernels;
  for (std::size_t i = 0; i < list.size; ++i) {
    if (list.items[i]->level <= detect_level()) kernels.push_back(list.items[i]);
  }
  if (detect_level() >= Level::Avx512Bf16) {
    kernels.push_back(&kAttentionAmxEmulated);
    kernels.push_back(&kAttentionAmxEmulatedSmall);
  }
  for (const AttentionKernel* kernel : kernels) {
    if (kernel->refuse(a) != nullptr) continue;
    SCOPED_TRACE(std::string(kernel->name) + (elem == Elem::F32 ? " f32" : " bf16"));
    f(*kernel);
  }
}

void check_case(const Case& c, Elem elem) {
  const Problem problem(c, elem);
  for_each_kernel(elem, c.dim, [&](const AttentionKernel& kernel) {
    const TestTensor y = problem.run(kernel, 1);
    problem.check(y);
    EXPECT_TRUE(y == problem.run(kernel, 4)) << "depends on the number of threads";
    EXPECT_TRUE(y == problem.run(kernel, 64)) << "depends on the number of threads";
  });
}

void check_case(const Case& c) {
  for (const Elem elem : kElems) check_case(c, elem);
}

TEST(Attention, ListIsSortedAndCoversBothTypesAtTheLowestLevel) {
  const AttentionKernelList list = attention_kernels();
  ASSERT_GT(list.size, 0U);
  for (std::size_t i = 1; i < list.size; ++i) {
    EXPECT_LE(list.items[i]->level, list.items[i - 1]->level);
  }
  EXPECT_STREQ(list.items[0]->name, "attention.amx.bf16");
  const AttentionKernel& last = *list.items[list.size - 1];
  EXPECT_EQ(last.level, Level::Scalar);
  for (const Elem elem : kElems) {
    AttentionArgs a;
    a.elem = elem;
    EXPECT_EQ(last.refuse(a), nullptr);
  }
}

TEST(Attention, AnyLengthAndWidth) {
  for (const std::int64_t dim : {1, 8, 40, 64, 72, 128, 129, 512})
    check_case({.q_len = 7, .k_len = 70, .dim = dim});
  for (const std::int64_t k_len : {1, 2, 63, 64, 65, 511, 513})
    check_case({.q_len = 5, .k_len = k_len, .dim = 16});
  for (const std::int64_t q_len : {1, 6, 13, 97})
    check_case({.q_len = q_len, .k_len = 33, .dim = 24});
}

TEST(Attention, WidthsOfTiles) {
  for (const std::int64_t dim : {32, 64, 96, 128, 160, 256}) {
    check_case({.q_len = 33, .k_len = 290, .dim = dim});
    check_case({.q_len = 15, .k_len = 31, .dim = dim, .scale = 0.05F});
    check_case({.heads = 2, .kv_heads = 2, .q_len = 65, .k_len = 70, .dim = dim, .causal = true});
  }
  for (const std::int64_t length : {1, 2, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 255, 257, 300})
    check_case({.q_len = length, .k_len = length, .dim = 32});
}

TEST(Attention, SeveralGroupsOfQueries) {
  check_case({.q_len = 530, .k_len = 40, .dim = 32});
  check_case({.q_len = 1050, .k_len = 300, .dim = 32, .causal = true});
  check_case({.q_len = 300, .k_len = 33, .dim = 256});
}

TEST(Attention, ByHeads) {
  check_case({.batch = 2,
              .heads = 3,
              .kv_heads = 3,
              .q_len = 40,
              .k_len = 50,
              .dim = 64,
              .by_head = true});
  check_case(
      {.batch = 2, .heads = 4, .kv_heads = 2, .q_len = 9, .k_len = 33, .dim = 20, .by_head = true});
}

TEST(Attention, SeveralBlocksOfKeys) {
  check_case({.heads = 2, .kv_heads = 2, .q_len = 14, .k_len = 1100, .dim = 32});
}

TEST(Attention, BatchesAndGroupedHeads) {
  check_case({.batch = 2, .heads = 6, .kv_heads = 2, .q_len = 19, .k_len = 21, .dim = 20});
}

TEST(Attention, Causal) {
  check_case({.heads = 2, .q_len = 150, .k_len = 150, .dim = 16, .causal = true});
  check_case({.q_len = 9, .k_len = 700, .dim = 16, .causal = true});
  check_case({.q_len = 40, .k_len = 12, .dim = 16, .causal = true});  // some queries see nothing
}

TEST(Attention, KeyBounds) {
  check_case({.batch = 2, .q_len = 60, .k_len = 130, .dim = 16, .bounds = true});
  check_case({.q_len = 23, .k_len = 900, .dim = 8, .bounds = true});
  check_case({.q_len = 60, .k_len = 60, .dim = 16, .causal = true, .bounds = true});
  check_case({.batch = 2,
              .heads = 2,
              .kv_heads = 2,
              .q_len = 90,
              .k_len = 600,
              .dim = 64,
              .bounds = true});
  check_case({.q_len = 200, .k_len = 200, .dim = 32, .causal = true, .bounds = true});
}

TEST(Attention, Bias) {
  check_case(
      {.heads = 3, .kv_heads = 3, .q_len = 20, .k_len = 75, .dim = 16, .bias = true, .scale = 1});
  check_case({.q_len = 20, .k_len = 530, .dim = 16, .causal = true, .bounds = true, .bias = true});
  check_case(
      {.batch = 2, .heads = 2, .kv_heads = 2, .q_len = 70, .k_len = 290, .dim = 64, .bias = true});
  check_case({.q_len = 40, .k_len = 530, .dim = 32, .causal = true, .bounds = true, .bias = true});
}

TEST(Attention, LargeScoresAndNegativeScale) {
  check_case({.q_len = 9, .k_len = 600, .dim = 64, .scale = 1, .spread = 4});
  check_case({.q_len = 9, .k_len = 60, .dim = 16, .scale = -0.5F});
  check_case({.q_len = 40, .k_len = 600, .dim = 32, .scale = -2, .spread = 4});
  check_case({.q_len = 40, .k_len = 600, .dim = 128, .scale = 1, .spread = 20});
}

TEST(Attention, ScoresThatRiseAndFallAlongTheKeys) {
  // The keys grow by a constant, so that the scores of a query rise or fall, as the sum of its elements
  // has it, from every block to the next. In bf16 only: the bound for f32 is for small scores.
  for (const float growth : {0.01F, 0.3F}) {
    for (const std::int64_t dim : {32, 128}) {
      check_case({.q_len = 40, .k_len = 600, .dim = dim, .growth = growth}, Elem::Bf16);
      check_case({.q_len = 33, .k_len = 300, .dim = dim, .bias = true, .growth = growth},
                 Elem::Bf16);
    }
  }
}

TEST(Attention, NanStaysInItsRow) {
  for (const Elem elem : kElems) {
    for_each_kernel(elem, 32, [&](const AttentionKernel& kernel) {
      constexpr std::int64_t kTokens = 50;
      TestTensor q = TestTensor::random(kTokens * 32, elem, 1, 1);
      TestTensor k = TestTensor::random(kTokens * 32, elem, 1, 2);
      TestTensor y(kTokens * 32, elem);
      q.set(7 * 32 + 5, std::numeric_limits<float>::quiet_NaN());
      AttentionArgs a;
      a.q_len = a.k_len = kTokens, a.head_dim = 32, a.elem = elem;
      a.q = {q.data(), 0, 32, 32};
      a.k = a.v = {k.data(), 0, 32, 32};
      a.y = y.data();
      a.y_token = 32;
      TestScratch scratch(kernel.scratch_bytes(a, 1));
      const std::int64_t tasks = kernel.tasks(a, 1);
      for (std::int64_t t = 0; t < tasks; ++t) kernel.run(a, t, tasks, scratch.data());
      for (std::int64_t i = 0; i < kTokens * 32; ++i) {
        EXPECT_EQ(std::isnan(y.get(i)), i / 32 == 7) << i;
      }
    });
  }
}

TEST(Attention, TilesTakeWidthsOf32AndBf16) {
  const AttentionKernel& amx = *attention_kernels().items[0];
  AttentionArgs a;
  a.elem = Elem::Bf16;
  for (const std::int64_t dim : {32, 64, 96, 128, 224, 256}) {
    a.head_dim = dim;
    EXPECT_EQ(amx.refuse(a), nullptr) << dim;
  }
  for (const std::int64_t dim : {1, 40, 72, 288, 512}) {
    a.head_dim = dim;
    EXPECT_NE(amx.refuse(a), nullptr) << dim;
    // Not the bf16 products of AVX-512, which are slower than f32 where there are tiles.
    EXPECT_STREQ(attention_kernels().items[1]->name, "attention.avx512");
    EXPECT_EQ(attention_kernels().items[1]->refuse(a), nullptr);
  }
  a.head_dim = 64;
  a.elem = Elem::F32;
  EXPECT_NE(amx.refuse(a), nullptr);
}

TEST(Attention, PaddingDoesNotHideVeryNegativeScores) {
  // Every score is far below the zero that padded keys would have.
  for (const Elem elem : kElems) {
    for_each_kernel(elem, 8, [&](const AttentionKernel& kernel) {
      TestTensor q(8, elem);
      TestTensor k(3 * 8, elem);
      TestTensor y(8, elem);
      for (int i = 0; i < 8; ++i) q.set(i, 100);
      for (int i = 0; i < 24; ++i) k.set(i, -100);
      AttentionArgs a;
      a.q_len = 1, a.k_len = 3, a.head_dim = 8, a.elem = elem;
      a.q = {q.data(), 8, 8, 8};
      a.k = a.v = {k.data(), 24, 8, 8};
      a.y = y.data();
      a.y_batch = a.y_token = a.y_head = 8;
      TestScratch scratch(kernel.scratch_bytes(a, 1));
      const std::int64_t tasks = kernel.tasks(a, 1);
      for (std::int64_t t = 0; t < tasks; ++t) kernel.run(a, t, tasks, scratch.data());
      for (int i = 0; i < 8; ++i) EXPECT_NEAR(y.get(i), -100, 1e-3);
    });
  }
}

}  // namespace
}  // namespace difflet::cpu
