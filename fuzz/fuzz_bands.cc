// Hostile bundles of band programs, and sizes: refused, or what their own text gives back; what a bundle says
// that it takes is counted without touching memory.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzz.h"

#include "difflet/backends/bands/bundle.h"
#include "difflet/base/json.h"
#include "difflet/base/units.h"

namespace {

using namespace difflet;  // NOLINT(google-build-using-namespace): a program, not a header

// A program as a store would give it: the bundle's own input and output, and pieces that it may name.
runtime::CompiledProgram program_of(const std::string& text) {
  runtime::CompiledProgram program{
      .name = "p", .mesh = {}, .inputs = {}, .outputs = {}, .pieces = {}, .code = text};
  for (int i = 0; i < 64; ++i) {
    program.pieces.push_back({fmt::format("w{}|plain", i), 64});
  }
  const Json json = parse_json(text, "bundle");
  if (!json.is_object() || !json.contains("ports") || !json["ports"].is_array()) {
    return program;
  }
  // ["z", "f32", [1, 4, 8, 6]], first the input
  for (const Json& port : json["ports"]) {
    const bool good = port.is_array() && port.size() == 3 && port[0].is_string() &&
                      port[1].is_string() && port[2].is_array() && port[2].size() <= 4;
    if (!good) {
      return program;
    }
    std::vector<std::int64_t> dims;
    for (const Json& extent : port[2]) {
      if (!extent.is_number_integer() || extent.get<std::int64_t>() < 0 ||
          extent.get<std::int64_t>() > 4096) {
        return program;
      }
      dims.push_back(extent.get<std::int64_t>());
    }
    const runtime::Port one{
        port[0].get<std::string>(),
        {parse_dtype(port[1].get<std::string>()).value_or(DType::F32), Shape(dims)},
        {}};
    (program.inputs.empty() ? program.inputs : program.outputs).push_back(one);
  }
  return program;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::refuse_or_accept([&] {
    const std::size_t bytes = parse_bytes(text.substr(0, 24), "size");
    fuzz::law(parse_bytes(size_text(bytes), "printed") >= bytes, "a size that holds the bytes");
  });
  return fuzz::refuse_or_accept([&] {
    runtime::CompiledProgram program = program_of(text);
    const bands::Bundle bundle = bands::read_bundle(program);
    const std::vector<runtime::MemoryReport> reports(bundle.programs.size());
    (void)bands::peak_of(bundle, reports);
    for (std::size_t leg = 0; leg < bundle.legs.size(); ++leg) {
      const bands::LegPlace place = bands::place_of(bundle, leg);
      fuzz::law(place.from <= place.bytes, "a value within its place");
    }
    program.code = bands::print_bundle(bundle, program.pieces);
    fuzz::law(bands::print_bundle(bands::read_bundle(program), program.pieces) == program.code,
              "print(parse(x)) == x");
  });
}
