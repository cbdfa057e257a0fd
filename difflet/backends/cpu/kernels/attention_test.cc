// Every attention kernel that this chip can run, against softmax attention in double precision.
#include "difflet/backends/cpu/kernels/attention.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <gtest/gtest.h>

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
  float spread = 1.5F;  // of q and k
};

// Operands of a case: q, k and v interleaved in one buffer as after a fused projection.
class Problem {
 public:
  Problem(const Case& c, Elem elem)
      : c_(c),
        elem_(elem),
        q_(TestTensor::random(c.batch * c.q_len * q_token(), elem, c.spread, 1)),
        kv_(TestTensor::random(c.batch * c.k_len * kv_token(), elem, c.spread, 2)),
        bias_(TestTensor::random(c.heads * c.q_len * c.k_len, Elem::F32, 2, 3)) {
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

  std::int64_t q_token() const { return c_.heads * c_.dim + 3; }
  std::int64_t kv_token() const { return 2 * c_.kv_heads * c_.dim; }
  std::int64_t y_token() const { return c_.heads * c_.dim + 1; }

  AttentionArgs args(TestTensor* y) const {
    AttentionArgs a;
    a.batch = c_.batch, a.heads = c_.heads, a.kv_heads = c_.kv_heads;
    a.q_len = c_.q_len, a.k_len = c_.k_len, a.head_dim = c_.dim;
    a.elem = elem_;
    const auto bytes = static_cast<std::int64_t>(elem_bytes(elem_));
    const char* kv = static_cast<const char*>(kv_.data());
    a.q = {q_.data(), c_.q_len * q_token(), q_token(), c_.dim};
    a.k = {kv, c_.k_len * kv_token(), kv_token(), c_.dim};
    a.v = {kv + c_.kv_heads * c_.dim * bytes, c_.k_len * kv_token(), kv_token(), c_.dim};
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
    const std::int64_t kv_head = h / (c_.heads / c_.kv_heads);
    double v = 0;
    for (std::int64_t d = 0; d < c_.dim; ++d) {
      v += q_.get(at * q_token() + h * c_.dim + d) *
           kv_.get((b * c_.k_len + s) * kv_token() + kv_head * c_.dim + d);
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
    const std::int64_t kv_head = c_.kv_heads + h / (c_.heads / c_.kv_heads);
    for (std::int64_t d = 0; d < c_.dim; ++d) {
      double want = 0;
      double size = 0;
      for (std::int64_t s = 0; s < c_.k_len; ++s) {
        const double v = kv_.get((b * c_.k_len + s) * kv_token() + kv_head * c_.dim + d);
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

void for_each_kernel(Elem elem, const std::function<void(const AttentionKernel&)>& f) {
  const AttentionKernelList list = attention_kernels();
  AttentionArgs a;
  a.elem = elem;
  for (std::size_t i = 0; i < list.size; ++i) {
    const AttentionKernel& kernel = *list.items[i];
    if (kernel.level > detect_level() || kernel.refuse(a) != nullptr) continue;
    SCOPED_TRACE(std::string(kernel.name) + (elem == Elem::F32 ? " f32" : " bf16"));
    f(kernel);
  }
}

void check_case(const Case& c) {
  for (const Elem elem : kElems) {
    const Problem problem(c, elem);
    for_each_kernel(elem, [&](const AttentionKernel& kernel) {
      const TestTensor y = problem.run(kernel, 1);
      problem.check(y);
      EXPECT_TRUE(y == problem.run(kernel, 4)) << "depends on the number of threads";
      EXPECT_TRUE(y == problem.run(kernel, 64)) << "depends on the number of threads";
    });
  }
}

TEST(Attention, ListIsSortedAndCoversBothTypesAtTheLowestLevel) {
  const AttentionKernelList list = attention_kernels();
  ASSERT_GT(list.size, 0U);
  for (std::size_t i = 1; i < list.size; ++i) {
    EXPECT_LE(list.items[i]->level, list.items[i - 1]->level);
  }
  EXPECT_STREQ(list.items[0]->name, "attention.avx512bf16.bf16");
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
}

TEST(Attention, Bias) {
  check_case(
      {.heads = 3, .kv_heads = 3, .q_len = 20, .k_len = 75, .dim = 16, .bias = true, .scale = 1});
  check_case({.q_len = 20, .k_len = 530, .dim = 16, .causal = true, .bounds = true, .bias = true});
}

TEST(Attention, LargeScoresAndNegativeScale) {
  check_case({.q_len = 9, .k_len = 600, .dim = 64, .scale = 1, .spread = 4});
  check_case({.q_len = 9, .k_len = 60, .dim = 16, .scale = -0.5F});
}

TEST(Attention, PaddingDoesNotHideVeryNegativeScores) {
  // Every score is far below the zero that padded keys would have.
  for (const Elem elem : kElems) {
    for_each_kernel(elem, [&](const AttentionKernel& kernel) {
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
