// What the planner makes of a graph: buffers, weight jobs and steps in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "difflet/backends/cpu/kernels/linear.h"
#include "difflet/backends/cpu/memory_plan.h"
#include "difflet/backends/cpu/strided.h"
#include "difflet/base/thread_pool.h"
#include "difflet/graph/graph.h"
#include "difflet/runtime/program.h"

namespace difflet::cpu {

class ConvKernel;

// What a step sees while it runs.
struct Run {
  std::byte* const* base = nullptr;     // [buffer]
  std::byte* const* scratch = nullptr;  // [thread], Plan::scratch_bytes each
  ThreadPool* threads = nullptr;

  template <typename T>
  T* at(const View& v) const {
    return reinterpret_cast<T*>(base[v.buffer]) + v.offset;
  }
  std::byte* bytes(std::uint32_t buffer, std::int64_t byte_offset) const {
    return base[buffer] + byte_offset;
  }
};

struct Step {
  // "linear.avx512bf16.bf16 transformer_blocks.0.attn to_q.weight : bf16[1, 512, 3072]; <why>"
  std::string what;
  double flops = 0;  // 2 a multiply-add; 0 where it does not matter
  double bytes = 0;  // operands read once, results written once
  std::function<void(const Run&)> run;
};

enum class BufferKind : std::uint8_t { Arena, Weight, Constant, Input, Output };

struct Buffer {
  BufferKind kind = BufferKind::Arena;
  Lifetime life;          // bytes; steps for Arena
  std::size_t index = 0;  // of the input, output or constant
};

// Makes one weight piece, which is a buffer of the plan, from parameter `param`.
struct WeightJob {
  enum class Kind : std::uint8_t { Plain, Linear, Conv };
  Kind kind = Kind::Plain;
  runtime::WeightPiece piece;
  std::int64_t param = 0;
  std::uint32_t buffer = 0;
  DType dtype = DType::F32;              // Plain: as stored
  const LinearKernel* kernel = nullptr;  // Linear
  LinearDesc desc;
  std::shared_ptr<ConvKernel> conv;  // Conv
};

struct Plan {
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<WeightJob> weights;                  // by parameter, no piece twice
  std::vector<HostTensor> constants;               // bytes of Constant buffers, by Buffer::index
  std::vector<View> outputs;                       // views of Output buffers, contiguous
  std::vector<std::size_t> arena_offset;           // [buffer]
  std::size_t arena_bytes = 0, scratch_bytes = 0;  // scratch a thread

  std::vector<runtime::WeightPiece> pieces() const;  // of `weights`
};

}  // namespace difflet::cpu
