#include <cmath>

#include "tests/conformance/cases.h"
#include <fmt/format.h>

#include "difflet/base/error.h"
#include "difflet/base/rng.h"

namespace difflet::conformance {
namespace {

DType dtype_of(Kind kind, DType floats) {
  switch (kind) {
    case Kind::Float:
      return floats;
    case Kind::F32:
      return DType::F32;
    case Kind::I32:
      return DType::I32;
    case Kind::I8:
      return DType::I8;
    case Kind::Bool:
      return DType::Bool;
  }
  return floats;
}

HostTensor uniform(const Operand& operand, TorchGenerator& random, DType dtype) {
  const auto size = static_cast<std::size_t>(operand.shape.elements());
  std::vector<float> values(size);
  for (float& v : values) {
    const double unit = static_cast<double>(random.next32()) / 4294967296.0;
    v = static_cast<float>(operand.low + unit * (operand.high - operand.low));
  }
  if (is_float(dtype)) {
    return HostTensor::from(operand.shape, std::span<const float>(values)).to(dtype);
  }
  std::vector<std::int32_t> whole(size);
  for (std::size_t i = 0; i < size; ++i) {
    whole[i] = static_cast<std::int32_t>(std::floor(values[i]));
  }
  return HostTensor::from(operand.shape, std::span<const std::int32_t>(whole)).to(dtype);
}

// The op as the program states it: an Input has the dtype under test.
graph::Op stated(const graph::Op& op, DType floats) {
  graph::Op copy = op;
  if (auto* input = std::get_if<graph::Input>(&copy)) {
    input->dtype = floats;
  }
  return copy;
}

// A case of the op `input` has one operand, itself.
std::vector<Operand> operands_of(const Case& c) {
  if (const auto* input = std::get_if<graph::Input>(&c.op)) {
    return {{.shape = input->shape}};
  }
  return c.operands;
}

}  // namespace

graph::Graph build(const Case& c, DType floats) {
  graph::Graph g(c.name);
  std::vector<graph::NodeId> operands;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    const Operand& operand = c.operands[i];
    const DType dtype = dtype_of(operand.kind, floats);
    if (operand.role == Role::Param) {
      operands.push_back(g.add_param({fmt::format("p{}", i), {}, dtype, operand.shape, {}}));
    } else {
      operands.push_back(g.add(graph::Input{fmt::format("x{}", i), dtype, operand.shape}, {}));
    }
  }
  const bool is_param = std::holds_alternative<graph::Param>(c.op);
  g.add_output("y", is_param ? operands.at(0) : g.add(stated(c.op, floats), operands));
  return g;
}

std::vector<HostTensor> values(const Case& c, DType floats) {
  TorchGenerator random(2024);
  std::vector<HostTensor> all;
  for (const Operand& operand : operands_of(c)) {
    all.push_back(uniform(operand, random, dtype_of(operand.kind, floats)));
  }
  return all;
}

std::vector<HostTensor> inputs(const Case& c, const std::vector<HostTensor>& values, DType floats) {
  const std::vector<Operand> operands = operands_of(c);
  std::vector<HostTensor> given;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].role == Role::Input) {
      given.push_back(values[i].to(dtype_of(operands[i].kind, floats)));
    }
  }
  return given;
}

HostTensor CaseWeights::whole(const graph::ParamDecl& param) const {
  const auto index = static_cast<std::size_t>(std::stoul(param.name.substr(1)));
  check(index < values_.size(), ErrorCode::NotFound, "no weight '{}'", param.name);
  return values_[index];
}

}  // namespace difflet::conformance
