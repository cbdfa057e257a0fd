#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "difflet/graph/enum_names.h"
#include "difflet/graph/graph.h"
#include "difflet/graph/text.h"

namespace difflet::graph {
namespace {

constexpr std::int64_t kValuesShown = 16;

std::string value_text(std::int64_t v) { return fmt::format("{}", v); }
std::string value_text(double v) { return fmt::format("{}", v); }
std::string value_text(bool v) { return v ? "true" : "false"; }
std::string value_text(const std::string& v) { return quoted(v); }
std::string value_text(DType v) { return std::string(dtype_name(v)); }
std::string value_text(spmd::Axis v) { return std::string(spmd::axis_name(v)); }
std::string value_text(const Shape& v) { return v.str(); }
std::string value_text(const Dims& v) { return fmt::format("[{}]", fmt::join(v, ", ")); }
template <NamedEnum E>
std::string value_text(E v) {
  return std::string(enum_name(v));
}

// Empty when a value does not survive as decimal text (NaN).
std::string decimals(const HostTensor& t) {
  std::string text;
  const auto append = [&text](auto v) { text += fmt::format("{}{}", text.empty() ? "" : ", ", v); };
  switch (t.dtype()) {
    case DType::F32:
    case DType::F16:
    case DType::BF16:
      for (const float v : t.to_floats()) {
        if (std::isnan(v)) {
          return "";
        }
        append(v);
      }
      break;
    case DType::I32:
      std::ranges::for_each(t.as<std::int32_t>(), append);
      break;
    case DType::I64:
      std::ranges::for_each(t.as<std::int64_t>(), append);
      break;
    case DType::Bool:
      std::ranges::for_each(t.as<std::uint8_t>(), [&](std::uint8_t v) { append(v != 0 ? 1 : 0); });
      break;
    case DType::I8:
      std::ranges::for_each(t.as<std::int8_t>(), [&](std::int8_t v) { append(int{v}); });
      break;
    case DType::U8:
      std::ranges::for_each(t.as<std::uint8_t>(), [&](std::uint8_t v) { append(int{v}); });
      break;
  }
  return text;
}

std::string value_text(const HostTensor& v) {
  const std::string type = Type{v.dtype(), v.shape()}.str();
  if (v.shape().elements() <= kValuesShown && !v.bytes().empty()) {
    if (const std::string text = decimals(v); !text.empty()) {
      return fmt::format("{}({})", type, text);
    }
  }
  std::string hex;
  hex.reserve(v.bytes().size() * 2);
  for (const std::byte b : v.bytes()) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    hex += kDigits[std::to_integer<std::size_t>(b) >> 4U];
    hex += kDigits[std::to_integer<std::size_t>(b) & 15U];
  }
  return fmt::format("{} hex({})", type, hex);
}

std::string print_param(const ParamDecl& param) {
  std::string text = quoted(param.name);
  for (std::size_t i = 0; i < param.aliases.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? " aliases(" : ", ", quoted(param.aliases[i]));
  }
  text += param.aliases.empty() ? "" : ")";
  text += fmt::format(" {}", Type{param.dtype, param.shape}.str());
  if (const Placement& p = param.placement; p.split) {
    text += fmt::format(" split(dim={}, axis={}", p.dim, spmd::axis_name(p.mesh_axis));
    if (!p.segments.empty()) {
      text += fmt::format(", segments=[{}]", fmt::join(p.segments, ", "));
    }
    text += ")";
  }
  return text;
}

std::string print_node(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  std::string text = fmt::format("  %{} = {}", id, op_name(node.op));
  if (const auto* param = std::get_if<Param>(&node.op)) {
    text += ' ';
    text += print_param(graph.params()[static_cast<std::size_t>(param->index)]);
  } else {
    text += "(";
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      text += fmt::format("{}%{}", i == 0 ? "" : ", ", node.inputs[i]);
    }
    text += ')';
    text += print_attributes(node.op);
  }
  text += fmt::format(" : {}", node.type.str());
  if (const std::string_view scope = graph.scope_name(node.scope); !scope.empty()) {
    text += fmt::format(" @ {}", quoted(scope));
  }
  text += '\n';
  return text;
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  out += '"';
  return out;
}

std::string print_attributes(const Op& op) {
  std::string text;
  std::visit(
      [&text](const auto& o) {
        const std::decay_t<decltype(o)> fresh;
        std::vector<std::string> defaults;
        const auto collect = [&](std::string_view, const auto& v) {
          defaults.push_back(value_text(v));
        };
        fresh.visit_fields(fresh, collect);
        std::size_t i = 0;
        const auto append = [&](std::string_view key, const auto& v) {
          std::string value = value_text(v);
          if (value != defaults[i++]) {
            text += fmt::format("{}{}={}", text.empty() ? " {" : ", ", key, value);
          }
        };
        o.visit_fields(o, append);
      },
      op);
  if (!text.empty()) {
    text += '}';
  }
  return text;
}

std::string print(const Graph& graph) {
  const spmd::Mesh& mesh = graph.mesh();
  std::string text =
      fmt::format("graph {} mesh(dp={}, cfg={}, cp={}, tp={}) {{\n", quoted(graph.name()),
                  mesh.size(spmd::Axis::Dp), mesh.size(spmd::Axis::Cfg), mesh.size(spmd::Axis::Cp),
                  mesh.size(spmd::Axis::Tp));
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    text += print_node(graph, static_cast<NodeId>(i));
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const Output& output = graph.outputs()[i];
    text += fmt::format("{}{}=%{}{}", i == 0 ? "  return " : ", ", quoted(output.name), output.node,
                        i + 1 == graph.outputs().size() ? "\n" : "");
  }
  text += "}\n";
  return text;
}

}  // namespace difflet::graph
