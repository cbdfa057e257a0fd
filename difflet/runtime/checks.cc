#include "difflet/runtime/checks.h"

#include <algorithm>

#include "difflet/base/error.h"
#include "difflet/base/units.h"

namespace difflet::runtime {
namespace {

// Index of the first element whose exponent bits are all ones, or the size.
template <typename T>
std::size_t first_non_finite(std::span<const T> values, T exponent) {
  const auto found =
      std::ranges::find_if(values, [exponent](T v) { return (v & exponent) == exponent; });
  return static_cast<std::size_t>(found - values.begin());
}

}  // namespace

void check_inputs(const graph::Graph& graph, std::span<const HostTensor> inputs) {
  const std::vector<graph::NodeId> ids = graph.inputs();
  check(inputs.size() == ids.size(), ErrorCode::InvalidArgument,
        "program '{}' takes {} inputs, not {}", graph.name(), ids.size(), inputs.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const graph::Node& node = graph.node(ids[i]);
    const graph::Type given{inputs[i].dtype(), inputs[i].shape()};
    check(given == node.type && !inputs[i].bytes().empty(), ErrorCode::InvalidArgument,
          "input '{}' of program '{}' must be {}, not {}", std::get<graph::Input>(node.op).name,
          graph.name(), node.type.str(), given.str());
  }
}

graph::Graph read_code(const CompiledProgram& program) {
  graph::Graph code;
  try {
    code = graph::parse(program.code);
  } catch (const Error& e) {
    fail(ErrorCode::DataLoss, "program '{}' is damaged: {}", program.name, e.message());
  }
  check(program.name == code.name() && program.mesh == code.mesh() &&
            program.inputs == input_ports(code) && program.outputs == output_ports(code),
        ErrorCode::DataLoss, "program '{}': its code is that of another program, '{}'",
        program.name, code.name());
  return code;
}

void check_pieces(const CompiledProgram& program, std::span<const WeightPiece> wanted) {
  const std::size_t common = std::min(program.pieces.size(), wanted.size());
  for (std::size_t i = 0; i < common; ++i) {
    check(
        program.pieces[i] == wanted[i], ErrorCode::DataLoss,
        "program '{}' was compiled by another build or level: it reads '{}' of {} bytes where this "
        "one reads '{}' of {}",
        program.name, program.pieces[i].name, program.pieces[i].bytes, wanted[i].name,
        wanted[i].bytes);
  }
  check(program.pieces.size() == wanted.size(), ErrorCode::DataLoss,
        "program '{}' lists {} weight pieces, its code reads {}", program.name,
        program.pieces.size(), wanted.size());
}

void check_weights(const CompiledProgram& program,
                   std::span<const std::shared_ptr<const PackedWeights>> weights) {
  const auto ranks = static_cast<std::size_t>(program.mesh.ranks());
  check(weights.size() == ranks && std::ranges::find(weights, nullptr) == weights.end(),
        ErrorCode::InvalidArgument, "program '{}' has {} ranks, but there are weights for {}",
        program.name, ranks, weights.size());
}

void check_limit(const CompiledProgram& program, const MemoryReport& planned,
                 const BackendOptions& options) {
  check(
      options.memory_limit == 0 || planned.total() <= options.memory_limit,
      ErrorCode::ResourceExhausted,
      "program '{}' needs {} (weights, activations and working memory), more than the limit of {}",
      program.name, readable_bytes(planned.total()), readable_bytes(options.memory_limit));
}

void check_finite(std::string_view name, const HostTensor& tensor) {
  std::size_t at = 0;
  std::size_t size = 0;
  switch (tensor.dtype()) {
    case DType::F32:
      size = tensor.as<std::uint32_t>().size();
      at = first_non_finite<std::uint32_t>(tensor.as<std::uint32_t>(), 0x7f800000U);
      break;
    case DType::F16:
      size = tensor.as<std::uint16_t>().size();
      at = first_non_finite<std::uint16_t>(tensor.as<std::uint16_t>(), 0x7c00U);
      break;
    case DType::BF16:
      size = tensor.as<std::uint16_t>().size();
      at = first_non_finite<std::uint16_t>(tensor.as<std::uint16_t>(), 0x7f80U);
      break;
    case DType::I32:
    case DType::I64:
    case DType::Bool:
    case DType::U8:
    case DType::I8:
      return;
  }
  check(at == size, ErrorCode::DataLoss, "tensor '{}' holds NaN or infinity at element {} of {}",
        name, at, tensor.shape().str());
}

HostTensor load_param(const graph::ParamDecl& param, const WeightSource& weights,
                      const spmd::Mesh& mesh, std::int64_t rank) {
  HostTensor shard = local_shard(param, mesh, rank, weights.whole(param));
  check_finite(param.name, shard);
  if (shard.dtype() == param.dtype) {
    return shard;
  }
  HostTensor converted = shard.to(param.dtype);
  check_finite(param.name, converted);  // a narrower type may overflow
  return converted;
}

}  // namespace difflet::runtime
