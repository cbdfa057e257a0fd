#include "difflet/backends/bands/bundle.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "difflet/base/error.h"

namespace difflet::bands {

using graph::NodeId;
using runtime::Port;

std::size_t KeptValue::bytes() const noexcept {
  return static_cast<std::size_t>(type.shape.elements()) * dtype_bytes(type.dtype);
}

std::int64_t KeptValue::outer() const noexcept {
  std::int64_t n = 1;
  for (std::size_t i = 0; i < rows.axis; ++i) {
    n *= type.shape[i];
  }
  return n;
}

std::size_t KeptValue::row_bytes() const noexcept {
  return bytes() / static_cast<std::size_t>(outer() * rows.count);
}

graph::Type KeptValue::of(std::int64_t count) const {
  return {type.dtype, type.shape.with(rows.axis, count * rows.unit)};
}

PortName parse_port(std::string_view name) noexcept {
  const std::size_t dot = std::min(name.find('.'), name.size());
  PortName port{.kind = name.substr(0, dot), .node = 0};
  const std::string_view number = name.substr(std::min(dot + 1, name.size()));
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), port.node);
  const bool whole = error == std::errc{} && end == number.data() + number.size();
  return whole ? port : PortName{};
}

namespace {

std::size_t type_bytes(const graph::Type& type) {
  return static_cast<std::size_t>(type.shape.elements()) * dtype_bytes(type.dtype);
}

// Of the input or output, which is the caller's.
bool is_first(const Bundle& bundle, std::size_t leg) { return leg == 0 && !bundle.legs.empty(); }
bool is_last(const Bundle& bundle, std::size_t leg) { return leg + 1 == bundle.legs.size(); }

// The first rows of value `node` that runs of the pass read, from each run on; `none` after the last that
// does.
std::vector<std::int64_t> first_reads(const Bundle& bundle, const BandPass& pass, NodeId node,
                                      std::int64_t none) {
  std::vector<std::int64_t> first(pass.runs.size() + 1, none);
  for (std::size_t r = pass.runs.size(); r-- > 0;) {
    first[r] = first[r + 1];
    std::size_t k = 0;
    for (const Port& port : bundle.programs[pass.runs[r].program].inputs) {
      const PortName name = parse_port(port.name);
      if (name.kind == "value") {
        first[r] = name.node == node ? std::min(first[r], pass.runs[r].first[k]) : first[r];
        ++k;
      }
    }
  }
  return first;
}

}  // namespace

LegPlace place_of(const Bundle& bundle, std::size_t leg) {
  const BandLeg& l = bundle.legs[leg];
  const KeptValue& from = bundle.values.at(l.from);
  const KeptValue& to = bundle.values.at(l.to);
  if (is_last(bundle, leg)) {
    return {.from = 0, .bytes = is_first(bundle, leg) ? 0 : from.bytes()};
  }
  if (is_first(bundle, leg)) {
    return {.from = 0, .bytes = to.bytes()};
  }
  constexpr std::size_t kAlign = 64;
  std::size_t offset = to.bytes();
  if (from.outer() == 1 && to.outer() == 1) {
    const BandPass& pass = l.passes.back();
    const auto first = first_reads(bundle, pass, l.from, from.rows.count);
    offset = 0;
    for (std::size_t r = 0; r < pass.runs.size(); ++r) {
      // The rows of this run are written when it is over.
      const std::size_t end = static_cast<std::size_t>(pass.runs[r].rows.last) * to.row_bytes();
      const std::size_t read = static_cast<std::size_t>(first[r + 1]) * from.row_bytes();
      offset = std::max(offset, end - std::min(end, read));
    }
  }
  offset = (offset + kAlign - 1) / kAlign * kAlign;
  return {.from = offset, .bytes = std::max(offset + from.bytes(), to.bytes())};
}

namespace {

// What one run holds besides the values that are kept.
std::size_t run_bytes(const Bundle& bundle, const BandRun& run,
                      const runtime::MemoryReport& report) {
  const runtime::CompiledProgram& program = bundle.programs[run.program];
  std::size_t bytes = report.arena_bytes + report.scratch_bytes;
  for (const Port& port : program.inputs) {
    const PortName name = parse_port(port.name);
    const bool in_place = name.kind == "value" && bundle.values.at(name.node).outer() == 1;
    bytes += in_place ? 0 : type_bytes(port.type);
  }
  for (const Port& port : program.outputs) {
    bytes += type_bytes(port.type);
  }
  return bytes;
}

}  // namespace

runtime::MemoryReport peak_of(const Bundle& bundle,
                              const std::vector<runtime::MemoryReport>& programs) {
  runtime::MemoryReport most;
  for (std::size_t i = 0; i < bundle.legs.size(); ++i) {
    const BandLeg& leg = bundle.legs[i];
    std::size_t kept = place_of(bundle, i).bytes;
    for (const BandPass& pass : leg.passes) {
      if (!pass.statistics) {
        const std::size_t made = bundle.values.at(pass.node).bytes();
        kept += pass.node != leg.to ? made : is_last(bundle, i) ? made : 0;
      }
      for (const BandRun& run : pass.runs) {
        const runtime::MemoryReport& report = programs[run.program];
        const std::size_t bytes = kept + run_bytes(bundle, run, report);
        if (bytes > most.arena_bytes + most.scratch_bytes) {
          most.scratch_bytes = report.scratch_bytes;
          most.arena_bytes = bytes - most.scratch_bytes;
        }
      }
    }
  }
  return most;
}

}  // namespace difflet::bands
