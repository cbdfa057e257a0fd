#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "difflet/graph/cursor.h"
#include "difflet/graph/enum_names.h"
#include "difflet/graph/graph.h"
#include "difflet/graph/text.h"

namespace difflet::graph {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : cursor_(text) {}
  Graph run();

 private:
  void value(std::int64_t& v) { v = cursor_.number<std::int64_t>(); }
  void value(double& v) { v = cursor_.number<double>(); }
  void value(bool& v);
  void value(std::string& v) { v = cursor_.string(); }
  void value(DType& v);
  void value(spmd::Axis& v) { v = named(spmd::parse_axis(cursor_.word()), "mesh axis"); }
  void value(Dims& v);
  void value(Shape& v);
  void value(HostTensor& v);
  template <NamedEnum E>
  void value(E& v) {
    v = named(parse_enum<E>(cursor_.word()), "value");
  }
  template <typename T>
  T named(std::optional<T> found, std::string_view kind) {
    if (!found) {
      cursor_.refuse(fmt::format("unknown {}", kind));
    }
    return *found;
  }

  template <typename T>
  T read() {
    T v{};
    value(v);
    return v;
  }
  template <typename T>
  T keyed(std::string_view key) {
    cursor_.expect(key);
    cursor_.expect("=");
    return read<T>();
  }
  Type type();
  spmd::Mesh mesh();
  NodeId operand();
  ParamDecl param();
  template <typename O>
  void attributes(O& op);
  void decimals(HostTensor& tensor);
  void hex(HostTensor& tensor, std::string_view digits);
  void node(Graph& to);
  void outputs(Graph& to);
  Graph graph();

  Cursor cursor_;
  std::map<std::uint64_t, NodeId> ids_;  // numbers in the text
};

void Parser::value(bool& v) {
  const std::string_view word = cursor_.word();
  if (word != "true" && word != "false") {
    cursor_.refuse("expected true or false");
  }
  v = word == "true";
}

void Parser::value(DType& v) {
  v = named(parse_dtype(cursor_.word()), "dtype");
  if (v == DType::U8) {
    cursor_.refuse("u8 is for files, not for graphs");
  }
}

void Parser::value(Dims& v) {
  cursor_.expect("[");
  v.clear();
  if (cursor_.accept("]")) {
    return;
  }
  do {
    v.push_back(cursor_.number<std::int64_t>());
  } while (cursor_.accept(","));
  cursor_.expect("]");
}

void Parser::value(Shape& v) { v = Shape(std::span<const std::int64_t>(read<Dims>())); }

Type Parser::type() {
  Type t;
  value(t.dtype);
  value(t.shape);
  return t;
}

void Parser::value(HostTensor& v) {
  const Type t = type();
  if (cursor_.accept("hex")) {
    cursor_.expect("(");
    const std::string_view digits = cursor_.until(')');
    const auto bytes = static_cast<std::size_t>(t.shape.elements()) * dtype_bytes(t.dtype);
    if (digits.size() % 2 != 0 || digits.size() / 2 != bytes) {
      cursor_.refuse("the number of hexadecimal digits does not fit the type");
    }
    v = HostTensor(t.dtype, t.shape);
    hex(v, digits);
    return;
  }
  constexpr std::int64_t kMaxDecimals = 4096;
  if (t.shape.elements() > kMaxDecimals) {
    cursor_.refuse("a tensor this large is given in hexadecimal");
  }
  v = HostTensor(t.dtype, t.shape);
  cursor_.expect("(");
  decimals(v);
  cursor_.expect(")");
}

void Parser::decimals(HostTensor& tensor) {
  const DType dtype = tensor.dtype();
  const auto bytes = tensor.mutable_bytes();
  const std::size_t width = dtype_bytes(dtype);
  const auto put = [&](std::size_t i, auto v) { std::memcpy(&bytes[i * width], &v, width); };
  for (std::size_t i = 0; i < bytes.size() / width; ++i) {
    if (i > 0) {
      cursor_.expect(",");
    }
    switch (dtype) {
      case DType::F32:
        put(i, cursor_.number<float>());
        break;
      case DType::F16:
        put(i, f32_to_f16(cursor_.number<float>()));
        break;
      case DType::BF16:
        put(i, f32_to_bf16(cursor_.number<float>()));
        break;
      case DType::I32:
        put(i, cursor_.number<std::int32_t>());
        break;
      case DType::I64:
        put(i, cursor_.number<std::int64_t>());
        break;
      case DType::Bool:
        put(i, static_cast<std::uint8_t>(cursor_.number<std::uint8_t>() != 0 ? 1 : 0));
        break;
      case DType::I8:
        put(i, static_cast<std::int8_t>(cursor_.number<std::int8_t>()));
        break;
      case DType::U8:  // value(DType&) refuses it
        break;
    }
  }
}

void Parser::hex(HostTensor& tensor, std::string_view digits) {
  const auto bytes = tensor.mutable_bytes();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    unsigned char byte = 0;
    const char* at = digits.data() + 2 * i;
    if (std::from_chars(at, at + 2, byte, 16).ptr != at + 2) {
      cursor_.refuse("expected hexadecimal digits");
    }
    bytes[i] = std::byte{byte};
  }
}

spmd::Mesh Parser::mesh() {
  cursor_.expect("mesh");
  cursor_.expect("(");
  const auto dp = keyed<std::int64_t>("dp");
  cursor_.expect(",");
  const auto cfg = keyed<std::int64_t>("cfg");
  cursor_.expect(",");
  const auto cp = keyed<std::int64_t>("cp");
  cursor_.expect(",");
  const auto tp = keyed<std::int64_t>("tp");
  cursor_.expect(")");
  return {dp, cfg, cp, tp};
}

NodeId Parser::operand() {
  cursor_.expect("%");
  const auto number = cursor_.number<std::uint64_t>();
  const auto found = ids_.find(number);
  if (found == ids_.end()) {
    cursor_.refuse(fmt::format("%{} is not defined", number));
  }
  return found->second;
}

ParamDecl Parser::param() {
  ParamDecl decl;
  decl.name = cursor_.string();
  if (cursor_.accept("aliases")) {
    cursor_.expect("(");
    do {
      decl.aliases.push_back(cursor_.string());
    } while (cursor_.accept(","));
    cursor_.expect(")");
  }
  const Type t = type();
  decl.dtype = t.dtype;
  decl.shape = t.shape;
  if (cursor_.accept("split")) {
    cursor_.expect("(");
    decl.placement.split = true;
    decl.placement.dim = keyed<std::int64_t>("dim");
    cursor_.expect(",");
    decl.placement.mesh_axis = keyed<spmd::Axis>("axis");
    if (cursor_.accept(",")) {
      decl.placement.segments = keyed<Dims>("segments");
    }
    cursor_.expect(")");
  }
  return decl;
}

template <typename O>
void Parser::attributes(O& op) {
  if (!cursor_.accept("{")) {
    return;
  }
  std::vector<std::string_view> seen;
  do {
    const std::string_view key = cursor_.word();
    cursor_.expect("=");
    if (std::ranges::find(seen, key) != seen.end()) {
      cursor_.refuse(fmt::format("attribute {} appears twice", key));
    }
    seen.push_back(key);
    bool known = false;
    const auto assign = [&](std::string_view name, auto& field) {
      if (name == key) {
        known = true;
        value(field);
      }
    };
    O::visit_fields(op, assign);
    if (!known) {
      cursor_.refuse(fmt::format("{} has no attribute {}", O::kName, key));
    }
  } while (cursor_.accept(","));
  cursor_.expect("}");
}

template <std::size_t I = 0>
std::optional<Op> op_named(std::string_view name) {
  if constexpr (I == std::variant_size_v<Op>) {
    return std::nullopt;
  } else {
    using O = std::variant_alternative_t<I, Op>;
    return O::kName == name ? std::optional<Op>(O{}) : op_named<I + 1>(name);
  }
}

void Parser::node(Graph& to) {
  const auto number = cursor_.number<std::uint64_t>();
  if (ids_.contains(number)) {
    cursor_.refuse(fmt::format("%{} is defined twice", number));
  }
  cursor_.expect("=");
  std::optional<Op> op = op_named(cursor_.word());
  if (!op) {
    cursor_.refuse("unknown op");
  }
  std::optional<ParamDecl> decl;
  std::vector<NodeId> inputs;
  if (std::holds_alternative<Param>(*op)) {
    decl = param();
  } else {
    cursor_.expect("(");
    if (!cursor_.accept(")")) {
      do {
        inputs.push_back(operand());
      } while (cursor_.accept(","));
      cursor_.expect(")");
    }
    std::visit([this](auto& o) { attributes(o); }, *op);
  }
  cursor_.expect(":");
  const Type declared = type();
  to.set_scope(cursor_.accept("@") ? cursor_.string() : std::string());
  const std::size_t params = to.params().size();
  const NodeId id = decl ? to.add_param(std::move(*decl)) : to.add(std::move(*op), inputs);
  if (decl && to.params().size() == params) {
    cursor_.refuse("the parameter is declared twice");
  }
  if (to.node(id).type != declared) {
    cursor_.refuse(
        fmt::format("%{} has type {}, not {}", number, to.node(id).type.str(), declared.str()));
  }
  ids_.emplace(number, id);
}

void Parser::outputs(Graph& to) {
  do {
    std::string name = cursor_.string();
    cursor_.expect("=");
    to.add_output(std::move(name), operand());
  } while (cursor_.accept(","));
}

Graph Parser::run() {
  try {
    return graph();
  } catch (Error& e) {
    e.add_context(fmt::format("graph text, line {}", cursor_.line()));
    throw;
  }
}

Graph Parser::graph() {
  cursor_.expect("graph");
  std::string name = cursor_.string();
  Graph result(std::move(name), mesh());
  cursor_.expect("{");
  while (cursor_.accept("%")) {
    node(result);
  }
  if (cursor_.accept("return")) {
    outputs(result);
  }
  cursor_.expect("}");
  if (!cursor_.done()) {
    cursor_.refuse("text after the graph");
  }
  result.restore_scope(0);
  verify(result);
  return result;
}

}  // namespace

Graph parse(std::string_view text) { return Parser(text).run(); }

}  // namespace difflet::graph
