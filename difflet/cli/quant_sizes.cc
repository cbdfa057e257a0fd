#include "difflet/cli/quant_sizes.h"

#include <utility>

#include "difflet/base/units.h"
#include "difflet/graph/enum_names.h"

namespace difflet::cli {
namespace {

constexpr std::size_t kNamed = 4;  // layers that are named, not counted

// Bytes of all pieces by the parameter that they hold; one that several programs read counts once.
std::map<std::string, std::size_t, std::less<>> parameter_bytes(
    const compile::StagedPrograms& programs) {
  std::map<std::string, std::size_t> pieces;
  for (const runtime::CompiledProgram* program : programs.all()) {
    for (const runtime::WeightPiece& piece : program->pieces) {
      pieces.emplace(piece.name, piece.bytes);
    }
  }
  std::map<std::string, std::size_t, std::less<>> bytes;
  for (const auto& [name, size] : pieces) {
    bytes[name.substr(0, name.find('|'))] += size;
  }
  return bytes;
}

}  // namespace

QuantSizes measure_quant(const compile::ComponentQuant& quant,
                         const compile::StagedPrograms& quantised,
                         const compile::StagedPrograms& floats, const std::string& dtype) {
  using graph::passes::int8_name;
  using graph::passes::scale_name;
  using graph::passes::smooth_name;
  const auto packed = parameter_bytes(quantised);
  const auto plain = parameter_bytes(floats);
  const auto bytes_of = [](const auto& bytes, const std::string& name) {
    const auto found = bytes.find(name);
    return found == bytes.end() ? std::size_t{0} : found->second;
  };
  std::map<std::pair<std::string, std::string>, QuantGroup> groups;
  QuantSizes sizes{.asked = true,
                   .can = true,
                   .stored = quant.stored,
                   .label = quant.label(),
                   .dtype = dtype,
                   .groups = {},
                   .kept = {}};
  for (const auto& [weight, layer] : quant.layers) {
    const std::string mode =
        fmt::format("{}{}", graph::enum_name(layer.mode), layer.smooth ? "+smooth" : "");
    QuantGroup& group = groups[{layer.group, mode}];
    group.group = layer.group;
    group.mode = mode;
    ++group.layers;
    group.float_bytes += bytes_of(plain, weight);
    for (const std::string& name :
         {weight, int8_name(weight), scale_name(weight), smooth_name(weight)}) {
      group.bytes += bytes_of(packed, name);
    }
    if (!layer.kept.empty()) {
      sizes.kept.emplace(weight, layer.kept);
    }
  }
  for (auto& [key, group] : groups) {
    sizes.groups.push_back(std::move(group));
  }
  return sizes;
}

Json as_json(const QuantSizes& sizes) {
  Json groups = Json::array();
  for (const QuantGroup& g : sizes.groups) {
    groups.push_back({{"group", g.group},
                      {"mode", g.mode},
                      {"layers", g.layers},
                      {"bytes", g.bytes},
                      {"float_bytes", g.float_bytes}});
  }
  return {{"mode", sizes.label.empty() ? "none" : sizes.label},
          {"can", sizes.can},
          {"stored", sizes.stored},
          {"groups", std::move(groups)},
          {"kept", sizes.kept}};
}

std::vector<std::string> lines(const QuantSizes& sizes) {
  if (sizes.groups.empty()) {
    return sizes.asked
               ? std::vector<std::string>{sizes.can ? "not quantised"
                                                    : "not quantised: it has no layers that "
                                                      "can be"}
               : std::vector<std::string>{};
  }
  std::vector<std::string> lines{
      fmt::format("{}, {}", sizes.label,
                  sizes.stored ? "as the folder stores it" : "made from the float weights")};
  std::size_t bytes = 0;
  std::size_t floats = 0;
  for (const QuantGroup& g : sizes.groups) {
    bytes += g.bytes;
    floats += g.float_bytes;
    lines.push_back(fmt::format("  {:<18} {:<12} {:>5} layers {:>10}, in {} {}", g.group, g.mode,
                                g.layers, readable_bytes(g.bytes), sizes.dtype,
                                readable_bytes(g.float_bytes)));
  }
  lines.push_back(fmt::format(
      "  together {}, in {} {}: {:.2f}", readable_bytes(bytes), sizes.dtype, readable_bytes(floats),
      floats == 0 ? 1.0 : static_cast<double>(bytes) / static_cast<double>(floats)));
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto& [weight, reason] : sizes.kept) {
    by_reason[reason].push_back(weight);
  }
  for (const auto& [reason, weights] : by_reason) {
    const bool few = weights.size() <= kNamed;
    lines.push_back(fmt::format("  kept in {} ({}): {}", sizes.dtype, reason,
                                few ? fmt::format("{}", fmt::join(weights, ", "))
                                    : fmt::format("{} layers", weights.size())));
  }
  return lines;
}

}  // namespace difflet::cli
