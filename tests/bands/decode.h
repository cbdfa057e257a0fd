// Decoders with random weights, run as a whole and within a memory limit.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "difflet/backends/bands/backend.h"
#include "difflet/base/context.h"
#include "difflet/base/error.h"
#include "difflet/base/units.h"
#include "difflet/models/autoencoders/kl.h"

namespace difflet::bands::testing {

// Uniform around 0, of a variance that keeps sums of products near 1.
class Weights final : public runtime::WeightSource {
 public:
  HostTensor whole(const graph::ParamDecl& param) const override {
    const Shape& shape = param.shape;
    const bool scales = shape.rank() == 1 && param.name.ends_with("weight");
    const std::int64_t products = shape.rank() > 1 ? shape.elements() / shape[0] : 100;
    return numbers(shape, hash(param.name), scales ? 1.0F : 0.0F,
                   scales ? 0.2F : std::sqrt(3.0F / static_cast<float>(products)));
  }
  static HostTensor numbers(const Shape& shape, std::uint32_t seed, float center, float width) {
    HostTensor t(DType::F32, shape);
    std::uint32_t state = seed | 1U;
    for (float& v : t.mutable_as<float>()) {
      state ^= state << 13U;
      state ^= state >> 17U;
      state ^= state << 5U;
      v = center + width * (static_cast<float>(state >> 8U) / 8388608.0F - 1.0F);
    }
    return t;
  }

 private:
  static std::uint32_t hash(const std::string& text) {
    std::uint32_t h = 2166136261U;
    for (const char c : text) {
      h = (h ^ static_cast<unsigned char>(c)) * 16777619U;
    }
    return h;
  }
};

inline autoencoders::KlConfig small_config() {
  autoencoders::KlConfig config;
  config.latent_channels = 4;
  config.block_out_channels = {16, 32, 32};
  config.layers_per_block = 1;
  config.norm_num_groups = 8;
  return config;
}

inline autoencoders::KlConfig flux_config() {
  autoencoders::KlConfig config;
  config.latent_channels = 16;
  config.block_out_channels = {128, 256, 512, 512};
  config.layers_per_block = 2;
  config.use_post_quant_conv = false;
  return config;
}

inline graph::Graph decoder(const autoencoders::KlConfig& config, const Shape& z, DType dtype) {
  return autoencoders::KlDecoder(config).trace({{"z", z}}, dtype, {});
}

class Decodes {
 public:
  explicit Decodes(const runtime::Backend& inner, int threads = 2, std::string level = "")
      : threads_(threads), backend_(inner), level_(std::move(level)) {}

  const BandBackend& backend() const { return backend_; }
  Context& context() { return context_; }
  runtime::BackendOptions options(std::size_t limit = 0) const {
    return {.cpu_level = level_, .memory_limit = 0, .picture_memory_limit = limit};
  }
  runtime::CompiledProgram compile(const graph::Graph& graph, std::size_t limit) {
    return backend_.compile(graph, context_, options(limit));
  }
  // Besides weights.
  std::size_t bytes(const runtime::CompiledProgram& program) {
    const runtime::MemoryReport memory = backend_.plan(program, context_, options());
    return memory.arena_bytes + memory.scratch_bytes;
  }
  // That a limit which is too low is told.
  std::size_t smallest_limit(const graph::Graph& graph) {
    try {
      (void)compile(graph, 1024);
    } catch (const Error& e) {
      const std::string message = e.message();
      return parse_bytes(message.substr(message.rfind(' ') + 1), "limit");
    }
    return 0;
  }
  HostTensor run(const runtime::CompiledProgram& program, std::uint32_t seed = 7) {
    const runtime::CompiledProgram* const programs[] = {&program};
    auto memory = std::make_shared<runtime::MemoryWeights>(programs);
    backend_.pack(program, 0, Weights{}, *memory, context_, options());
    const auto executable = backend_.load(program, {memory}, context_, options());
    const graph::Type& type = program.inputs[0].type;
    const HostTensor z = Weights::numbers(type.shape, seed, 0, 1.5F).to(type.dtype);
    return executable->run({z})[0];
  }

 private:
  Log log_{LogLevel::Error};
  ThreadPool threads_;
  Context context_{log_, threads_};
  BandBackend backend_;
  std::string level_;
};

}  // namespace difflet::bands::testing
