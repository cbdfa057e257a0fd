// Helpers for tests of this folder: graphs in few words, and running them.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "difflet/backends/cpu/backend.h"
#include "difflet/backends/cpu/kernels/level.h"
#include "difflet/base/context.h"
#include "difflet/graph/graph.h"

namespace difflet::cpu::testing {

// A graph that grows by one call a node.
class Program {
 public:
  using Id = graph::NodeId;

  explicit Program(DType floats = DType::F32) : floats_(floats) {}
  Id input(const std::string& name, const Shape& shape) { return input(name, shape, floats_); }
  Id input(const std::string& name, const Shape& shape, DType dtype) {
    return graph_.add(graph::Input{name, dtype, shape}, {});
  }
  Id param(const std::string& name, const Shape& shape) { return param(name, shape, floats_); }
  Id param(const std::string& name, const Shape& shape, DType dtype) {
    return graph_.add_param({name, {}, dtype, shape, {}});
  }
  Id add(graph::Op op, std::vector<Id> operands) {
    return graph_.add(std::move(op), std::move(operands));
  }
  // x . w^T with a new parameter `name` [width, K].
  Id linear(const std::string& name, Id x, std::int64_t width) {
    const Id w = param(name, Shape{width, graph_.node(x).type.shape.dim(-1)});
    return add(graph::Linear{}, {x, w});
  }
  Id reshape(Id x, const Shape& shape) { return add(graph::Reshape{shape}, {x}); }
  Id concat(std::vector<Id> parts, std::int64_t axis) {
    return add(graph::Concat{axis}, std::move(parts));
  }
  Id activate(Id x) { return add(graph::Activate{}, {x}); }
  void output(Id id) { graph_.add_output(fmt::format("y{}", outputs_++), id); }
  const graph::Graph& graph() const { return graph_; }

 private:
  DType floats_;
  graph::Graph graph_;
  int outputs_ = 0;
};

// One of everything: products, attention, norms, a convolution with its norm, sums.
inline Program everything(DType floats) {
  Program p(floats);
  const Program::Id x = p.input("x", {2, 37, 64});
  const Program::Id norm = p.add(graph::LayerNorm{}, {x});
  std::vector<Program::Id> heads;
  for (const char* name : {"wq", "wk", "wv"}) {
    heads.push_back(p.reshape(p.linear(name, norm, 64), {2, 37, 2, 32}));
  }
  const Program::Id attention =
      p.reshape(p.add(graph::Attention{.scale = 0.2}, heads), {2, 37, 64});
  const Program::Id joined = p.concat({attention, p.activate(p.linear("wm", norm, 128))}, 2);
  p.output(p.add(graph::Binary{}, {x, p.linear("wo", joined, 64)}));
  const Program::Id picture = p.input("picture", {1, 24, 20, 16});
  const Program::Id conv = p.add(
      graph::Conv2d{.pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1, .bias = true},
      {picture, p.param("conv", {32, 16, 3, 3}), p.param("bias", {32})});
  p.output(
      p.add(graph::GroupNorm{.groups = 4}, {conv, p.param("gn_w", {32}), p.param("gn_b", {32})}));
  return p;
}

// Small numbers that differ from element to element and from seed to seed; exact in bf16. Bytes are whole
// ones from -127 to 127.
inline HostTensor numbers(DType dtype, const Shape& shape, unsigned seed) {
  if (dtype == DType::I8) {
    HostTensor bytes(DType::I8, shape);
    const HostTensor floats = numbers(DType::F32, shape, seed);
    std::ranges::transform(
        floats.as<float>(), bytes.mutable_as<std::int8_t>().begin(),
        [](float v) { return static_cast<std::int8_t>(std::max(-127.0F, v * 64)); });
    return bytes;
  }
  HostTensor t(DType::F32, shape);
  std::uint32_t state = seed * 2654435761U + 12345;
  for (float& v : t.mutable_as<float>()) {
    state = state * 1664525U + 1013904223U;
    v = static_cast<float>(static_cast<int>(state >> 24U) - 128) / 64.0F;
  }
  return t.to(dtype);
}

// numbers() under every name, or what was set for it.
class Weights final : public runtime::WeightSource {
 public:
  HostTensor whole(const graph::ParamDecl& param) const override {
    const auto set = values_.find(param.name);
    unsigned seed = 99;
    for (const char c : param.name) {
      seed = seed * 31 + static_cast<unsigned char>(c);
    }
    return set != values_.end() ? set->second : numbers(param.dtype, param.shape, seed);
  }
  void set(const std::string& name, HostTensor value) { values_[name] = std::move(value); }

 private:
  std::map<std::string, HostTensor> values_;
};

inline std::vector<HostTensor> inputs_of(const graph::Graph& g) {
  std::vector<HostTensor> inputs;
  for (const graph::NodeId id : g.inputs()) {
    const graph::Type& type = g.node(id).type;
    inputs.push_back(numbers(type.dtype, type.shape, id + 1));
  }
  return inputs;
}

// A loaded program with the threads that it runs on.
class Loaded {
 public:
  explicit Loaded(const graph::Graph& g, const Weights& weights = {}, int threads = 2,
                  const runtime::BackendOptions& options = {})
      : threads_(threads), executable_(CpuBackend().load(g, weights, context_, options)) {}
  runtime::Executable& operator*() { return *executable_; }
  runtime::Executable* operator->() { return executable_.get(); }

 private:
  Log log_{LogLevel::Error};
  ThreadPool threads_;
  Context context_{log_, threads_};
  std::unique_ptr<runtime::Executable> executable_;
};

inline std::vector<std::string> levels() {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(detect_level()); ++i) {
    names.emplace_back(level_name(static_cast<Level>(i)));
  }
  return names;
}

}  // namespace difflet::cpu::testing
