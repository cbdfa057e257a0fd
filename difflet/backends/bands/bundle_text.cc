// Bundles as text: JSON. What is missing, of another type or does not fit is refused.
#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "difflet/backends/bands/bundle.h"
#include "difflet/base/error.h"
#include "difflet/base/json.h"

namespace difflet::bands {
namespace {

using graph::NodeId;
using runtime::CompiledProgram;
using runtime::Port;
using runtime::WeightPiece;

constexpr std::string_view kBegin = "{\"bands\":1,";
// Of one number in a bundle: bytes of the largest tensor, far above any memory.
constexpr std::int64_t kMost = std::int64_t{1} << 46U;
constexpr std::size_t kMostItems = std::size_t{1} << 20U;

Json type_json(const graph::Type& type) {
  return {dtype_name(type.dtype),
          std::vector<std::int64_t>(type.shape.dims().begin(), type.shape.dims().end())};
}

Json ports_json(const std::vector<Port>& ports) {
  Json list = Json::array();
  for (const Port& port : ports) {
    list.push_back({port.name, type_json(port.type)});
  }
  return list;
}

Json program_json(const CompiledProgram& program,
                  const std::map<std::string, std::size_t>& places) {
  Json pieces = Json::array();
  for (const WeightPiece& piece : program.pieces) {
    pieces.push_back(places.at(piece.name));
  }
  return {{"name", program.name},
          {"inputs", ports_json(program.inputs)},
          {"outputs", ports_json(program.outputs)},
          {"pieces", pieces},
          {"code", program.code}};
}

Json pass_json(const BandPass& pass) {
  Json runs = Json::array();
  for (const BandRun& run : pass.runs) {
    runs.push_back({run.program, run.rows.first, run.rows.last, run.first});
  }
  return {
      {"node", pass.node}, {"statistics", pass.statistics}, {"count", pass.count}, {"runs", runs}};
}

// Reads members that must be there; every refusal is DataLoss and names the program.
class Reader {
 public:
  explicit Reader(const CompiledProgram& program) : program_(program) {}

  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorCode::DataLoss, "program '{}' is damaged: its bands: {}", program_.name, what);
  }
  void expect(bool ok, std::string_view what) const {
    if (!ok) {
      refuse(what);
    }
  }
  const Json& at(const Json& json, std::string_view key) const {
    const bool there = json.is_object() && json.contains(key);
    if (!there) {
      refuse(fmt::format("'{}' is missing", key));
    }
    return json.at(key);
  }
  const Json& list(const Json& json) const {
    expect(json.is_array() && json.size() <= kMostItems, "a list is not one, or too long");
    return json;  // NOLINT(bugprone-return-const-ref-from-parameter): of the parsed text
  }
  // A list of this many.
  const Json& list(const Json& json, std::size_t size) const {
    expect(json.is_array() && json.size() == size, "a list of another length");
    return json;  // NOLINT(bugprone-return-const-ref-from-parameter): of the parsed text
  }
  std::int64_t number(const Json& json, std::int64_t min, std::int64_t max) const {
    expect(json.is_number_integer(), "a number is not one");
    const bool huge =
        json.is_number_unsigned() && json.get<std::uint64_t>() > static_cast<std::uint64_t>(kMost);
    expect(!huge, "a number out of range");
    const auto value = json.get<std::int64_t>();
    expect(value >= min && value <= max, "a number out of range");
    return value;
  }
  bool flag(const Json& json) const {
    expect(json.is_boolean(), "a flag is not one");
    return json.get<bool>();
  }
  std::string text(const Json& json) const {
    expect(json.is_string(), "a text is not one");
    return json.get<std::string>();
  }
  graph::Type type(const Json& json) const {
    list(json, 2);
    const auto dtype = parse_dtype(text(json[0]));
    expect(dtype.has_value(), "an unknown dtype");
    std::vector<std::int64_t> dims;
    for (const Json& extent : list(json[1])) {
      dims.push_back(number(extent, 0, kMost));
    }
    expect(dims.size() <= Shape::kMaxRank, "a shape of too many axes");
    std::int64_t left = kMost;
    for (const std::int64_t extent : dims) {
      left /= std::max<std::int64_t>(1, extent);
      expect(left > 0, "a shape that is larger than any memory");
    }
    return {*dtype, Shape(dims)};
  }
  NodeId node(const Json& json) const {
    return static_cast<NodeId>(number(json, 0, std::numeric_limits<NodeId>::max()));
  }

  std::vector<Port> ports(const Json& json) const {
    std::vector<Port> ports;
    for (const Json& port : list(json)) {
      list(port, 2);
      ports.push_back({text(port[0]), type(port[1]), graph::Binding::Request});
    }
    return ports;
  }
  // An output has no binding of its own.
  std::vector<Port> outputs(const Json& json) const {
    std::vector<Port> all = ports(json);
    for (Port& port : all) {
      port.binding = Port{}.binding;
    }
    return all;
  }

  CompiledProgram program(const Json& json) const {
    CompiledProgram program{.name = text(at(json, "name")),
                            .mesh = program_.mesh,
                            .inputs = ports(at(json, "inputs")),
                            .outputs = outputs(at(json, "outputs")),
                            .pieces = {},
                            .code = text(at(json, "code"))};
    for (const Json& piece : list(at(json, "pieces"))) {
      const std::int64_t last = static_cast<std::int64_t>(program_.pieces.size()) - 1;
      program.pieces.push_back(program_.pieces[static_cast<std::size_t>(number(piece, 0, last))]);
    }
    return program;
  }

  KeptValue value(const Json& json) const {
    list(json, 5);
    KeptValue value{.type = type(json[1]), .rows = {}};
    const auto rank = static_cast<std::int64_t>(value.type.shape.rank());
    value.rows = {static_cast<std::size_t>(number(json[2], 0, rank - 1)), number(json[3], 1, kMost),
                  number(json[4], 1, kMost)};
    const std::int64_t extent = value.type.shape[value.rows.axis];
    expect(value.rows.count <= extent && extent / value.rows.count == value.rows.unit &&
               extent % value.rows.count == 0 && value.type.shape.elements() > 0,
           "a value's rows do not fit its shape");
    return value;
  }

  BandPass pass(const Json& json, std::size_t programs) const {
    BandPass pass{.node = node(at(json, "node")),
                  .statistics = flag(at(json, "statistics")),
                  .count = number(at(json, "count"), 1, kMost),
                  .runs = {}};
    for (const Json& run : list(at(json, "runs"))) {
      list(run, 4);
      BandRun one{.program = static_cast<std::size_t>(
                      number(run[0], 0, static_cast<std::int64_t>(programs) - 1)),
                  .rows = {number(run[1], 0, kMost), number(run[2], 0, kMost)},
                  .first = {}};
      for (const Json& first : list(run[3])) {
        one.first.push_back(number(first, 0, kMost));
      }
      pass.runs.push_back(std::move(one));
    }
    return pass;
  }

 private:
  const CompiledProgram& program_;
};

// Goes through all runs as the executable will, and refuses what it could not do.
class Checker {
 public:
  Checker(const Reader& reader, const CompiledProgram& program, const Bundle& bundle)
      : reader_(reader), program_(program), bundle_(bundle) {}

  void check() {
    expect(program_.inputs.size() == 1 && program_.outputs.size() == 1 && !bundle_.legs.empty(),
           "not one picture from one input");
    const NodeId input = bundle_.legs.front().from;
    const NodeId output = bundle_.legs.back().to;
    expect(value(input).type == program_.inputs[0].type &&
               value(output).type == program_.outputs[0].type,
           "the input or output is of another type");
    std::set<NodeId> made{input};
    NodeId at = input;
    for (const BandLeg& leg : bundle_.legs) {
      expect(leg.from == at && made.insert(leg.to).second, "legs that do not follow each other");
      at = leg.to;
      readable_ = {input, leg.from};
      statistics_.clear();
      check_leg(leg);
    }
  }

 private:
  void expect(bool ok, std::string_view what) const { reader_.expect(ok, what); }
  const KeptValue& value(NodeId id) const {
    const auto found = bundle_.values.find(id);
    expect(found != bundle_.values.end(), "an unknown value");
    return found->second;
  }

  void check_leg(const BandLeg& leg) {
    expect(!leg.passes.empty() && !leg.passes.back().statistics && leg.passes.back().node == leg.to,
           "a leg that does not make its value");
    for (std::size_t i = 0; i < leg.passes.size(); ++i) {
      const BandPass& pass = leg.passes[i];
      const bool last = i + 1 == leg.passes.size();
      const bool fresh = pass.statistics
                             ? !statistics_.contains(pass.node)
                             : !readable_.contains(pass.node) && (pass.node == leg.to) == last;
      expect(fresh, "a value that is made twice");
      expect(pass.statistics || value(pass.node).rows.count == pass.count,
             "a value of another number of rows");
      check_pass(pass);
      if (!pass.statistics) {
        readable_.insert(pass.node);
      }
    }
  }

  void check_pass(const BandPass& pass) {
    std::map<std::string, graph::Type> carried;
    std::int64_t rows = 0;
    for (const BandRun& run : pass.runs) {
      const CompiledProgram& program = bundle_.programs[run.program];
      expect(run.rows.first == rows && run.rows.last >= rows && run.rows.last <= pass.count,
             "rows that do not follow each other");
      rows = run.rows.last;
      check_inputs(run, program, carried);
      carried.clear();
      bool made = false;
      for (const Port& port : program.outputs) {
        if (port.name == "band") {
          made = true;
          check_result(pass, run, port.type);
        } else {
          expect(
              parse_port(port.name).kind == "carry" && carried.emplace(port.name, port.type).second,
              "a program with an unknown output");
        }
      }
      expect(made == run.rows.any(), "a run with rows that it does not make");
    }
    expect(rows == pass.count, "rows that no run makes");
  }

  void check_inputs(const BandRun& run, const CompiledProgram& program,
                    const std::map<std::string, graph::Type>& carried) const {
    std::size_t k = 0;
    for (const Port& port : program.inputs) {
      const PortName name = parse_port(port.name);
      if (name.kind == "value") {
        const KeptValue& from = value(name.node);
        expect(readable_.contains(name.node) && k < run.first.size() &&
                   port.type.shape.rank() == from.type.shape.rank(),
               "a program that reads a value that is not there");
        const std::int64_t rows = port.type.shape[from.rows.axis] / from.rows.unit;
        expect(rows > 0 && rows <= from.rows.count && port.type == from.of(rows) &&
                   run.first[k] <= from.rows.count - rows,
               "a program that reads rows that are not there");
        ++k;
      } else if (name.kind == "statistics") {
        const auto found = statistics_.find(name.node);
        expect(found != statistics_.end() && found->second == port.type,
               "a program that reads statistics that are not there");
      } else {
        const auto found = carried.find(port.name);
        expect(name.kind == "carry" && found != carried.end() && found->second == port.type,
               "a program that reads rows that none carried");
      }
    }
    expect(k == run.first.size(), "a run that reads more than its program");
  }

  void check_result(const BandPass& pass, const BandRun& run, const graph::Type& type) {
    if (!pass.statistics) {
      expect(type == value(pass.node).of(run.rows.size()), "a program that makes other rows");
      return;
    }
    const auto [found, fresh] = statistics_.emplace(pass.node, type);
    expect(type.dtype == DType::F32 && type.shape.rank() == 3 && type.shape[2] == 4 &&
               found->second == type,
           "statistics of another shape");
  }

  const Reader& reader_;
  const CompiledProgram& program_;
  const Bundle& bundle_;
  std::set<NodeId> readable_;
  std::map<NodeId, graph::Type> statistics_;
};

}  // namespace

bool is_bundle(const CompiledProgram& program) noexcept { return program.code.starts_with(kBegin); }

std::string print_bundle(const Bundle& bundle, const std::vector<WeightPiece>& pieces) {
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    places.emplace(pieces[i].name, i);
  }
  Json values = Json::array();
  for (const auto& [node, value] : bundle.values) {
    values.push_back(
        {node, type_json(value.type), value.rows.axis, value.rows.unit, value.rows.count});
  }
  Json programs = Json::array();
  for (const CompiledProgram& program : bundle.programs) {
    programs.push_back(program_json(program, places));
  }
  Json legs = Json::array();
  for (const BandLeg& leg : bundle.legs) {
    Json passes = Json::array();
    for (const BandPass& pass : leg.passes) {
      passes.push_back(pass_json(pass));
    }
    legs.push_back({{"from", leg.from}, {"to", leg.to}, {"passes", passes}});
  }
  return Json{{"bands", 1},
              {"summary", bundle.summary},
              {"limit", bundle.limit},
              {"little_scratch", bundle.little_scratch},
              {"values", values},
              {"legs", legs},
              {"programs", programs}}
      .dump();
}

Bundle read_bundle(const CompiledProgram& program) {
  const Reader reader(program);
  Json json;
  try {
    json = parse_json(program.code, fmt::format("program '{}'", program.name));
  } catch (const Error& e) {
    reader.refuse(e.message());
  }
  reader.expect(program.mesh.ranks() == 1, "they run on one rank");
  Bundle bundle{
      .summary = reader.text(reader.at(json, "summary")),
      .limit = static_cast<std::size_t>(reader.number(reader.at(json, "limit"), 1, kMost)),
      .little_scratch = reader.flag(reader.at(json, "little_scratch")),
      .values = {},
      .programs = {},
      .legs = {}};
  for (const Json& value : reader.list(reader.at(json, "values"))) {
    const KeptValue kept = reader.value(value);
    reader.expect(bundle.values.emplace(reader.node(value[0]), kept).second,
                  "a value that is there twice");
  }
  for (const Json& one : reader.list(reader.at(json, "programs"))) {
    bundle.programs.push_back(reader.program(one));
  }
  for (const Json& leg : reader.list(reader.at(json, "legs"))) {
    BandLeg one{.from = reader.node(reader.at(leg, "from")),
                .to = reader.node(reader.at(leg, "to")),
                .passes = {}};
    for (const Json& pass : reader.list(reader.at(leg, "passes"))) {
      one.passes.push_back(reader.pass(pass, bundle.programs.size()));
    }
    bundle.legs.push_back(std::move(one));
  }
  Checker(reader, program, bundle).check();
  return bundle;
}

}  // namespace difflet::bands
