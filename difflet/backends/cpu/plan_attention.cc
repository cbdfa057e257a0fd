// Attention: heads read in place, scores never stored.
#include <numeric>

#include "difflet/backends/cpu/kernels/attention.h"
#include "difflet/backends/cpu/planner.h"
#include "difflet/base/error.h"

namespace difflet::cpu {
namespace {

using graph::NodeId;

const AttentionKernel& choose_kernel(Planner& p, const AttentionArgs& args) {
  const AttentionKernelList list = attention_kernels();
  for (std::size_t i = 0; i < list.size; ++i) {
    const AttentionKernel& k = *list.items[i];
    if (k.level > p.options().level) {
      continue;
    }
    const char* reason = k.refuse(args);
    if (reason == nullptr) {
      p.why(fmt::format("the best at {} that takes it", level_name(p.options().level)));
      return k;
    }
    p.why(fmt::format("{} refused: {}", k.name, reason));
  }
  fail(ErrorCode::Internal, "no attention kernel takes head dim {}", args.head_dim);
}

Heads heads(const View& v) {
  return {.data = nullptr, .batch = v.strides[0], .token = v.strides[1], .head = v.strides[2]};
}

const void* data(const Run& run, const View& v) {
  return run.bytes(v.buffer, v.offset * static_cast<std::int64_t>(dtype_bytes(v.dtype)));
}

// The bias broadcast to [B, H, Lq, Lk], its last axis contiguous; the strides go into `args`.
View bias_operand(Planner& p, NodeId id, NodeId operand, AttentionArgs& args) {
  const View given = p.rows(operand);
  View bias = broadcast_to(given, Shape{args.batch, args.heads, args.q_len, args.k_len});
  if (bias.inner_stride() != 1) {
    const View full = p.temporary(DType::F32, bias.shape);
    p.copy(id, bias, full);
    bias = full;
  }
  args.bias_batch = bias.strides[0];
  args.bias_head = bias.strides[1];
  args.bias_query = bias.strides[2];
  return bias;
}

// Keys that a query sees on average. Bounds are known only in a run: they do not lower it.
double keys_seen(const AttentionArgs& args) {
  const auto keys = static_cast<double>(args.k_len);
  if (!args.causal || args.q_len > args.k_len) {
    return keys;
  }
  return keys - static_cast<double>(args.q_len - 1) / 2;
}

}  // namespace

void plan_attention(Planner& p, NodeId id, const graph::Attention& op) {
  const auto& in = p.graph().node(id).inputs;
  const View q = p.rows(in[0]);
  const View k = p.rows(in[1]);
  const View v = p.rows(in[2]);
  std::size_t next = 3;
  AttentionArgs args;
  args.batch = q.shape[0];
  args.q_len = q.shape[1];
  args.heads = q.shape[2];
  args.head_dim = q.shape[3];
  args.k_len = k.shape[1];
  args.kv_heads = k.shape[2];
  args.elem = elem_of(q.dtype);
  args.q = heads(q);
  args.k = heads(k);
  args.v = heads(v);
  args.scale = static_cast<float>(op.scale);
  args.causal = op.causal;
  check(v.shape[3] == q.shape[3], ErrorCode::Unsupported,
        "attention: the cpu backend needs equal head dims, got {} and {}", q.shape.str(),
        v.shape.str());
  View bias;
  if (op.bias) {
    bias = bias_operand(p, id, in[next++], args);
  }
  View key_min;
  View key_max;
  if (op.bounds) {
    key_min = p.dense(in[next]);
    key_max = p.dense(in[next + 1]);
  }
  const View y = p.result(id);
  args.y_batch = y.strides[0];
  args.y_token = y.strides[1];
  args.y_head = y.strides[2];
  const AttentionKernel& kernel = choose_kernel(p, args);
  p.use_scratch(kernel.scratch_bytes(args, p.options().threads));
  const double flops = 4.0 * static_cast<double>(q.shape.elements()) * keys_seen(args);
  p.add_step(
      id, kernel.name,
      [=, &kernel, has_bias = op.bias, bounds = op.bounds](const Run& run) {
        AttentionArgs a = args;
        a.q.data = data(run, q);
        a.k.data = data(run, k);
        a.v.data = data(run, v);
        a.y = const_cast<void*>(data(run, y));
        a.bias = has_bias ? run.at<float>(bias) : nullptr;
        a.key_min = bounds ? run.at<std::int32_t>(key_min) : nullptr;
        a.key_max = bounds ? run.at<std::int32_t>(key_max) : nullptr;
        const std::int64_t tasks = kernel.tasks(a, run.threads->size());
        run.threads->run(tasks, [&](std::int64_t task, int thread) {
          kernel.run(a, task, tasks, run.scratch[thread]);
        });
      },
      {&q, &k, &v, &y, op.bias ? &bias : &y, op.bounds ? &key_min : &y, op.bounds ? &key_max : &y},
      flops);
}

}  // namespace difflet::cpu
