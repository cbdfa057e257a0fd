#include "difflet/backends/bands/backend.h"

#include <set>
#include <utility>

#include "difflet/backends/bands/bundle.h"
#include "difflet/backends/bands/compiler.h"
#include "difflet/backends/bands/executable.h"
#include "difflet/base/error.h"
#include "difflet/base/units.h"
#include "difflet/runtime/checks.h"

namespace difflet::bands {

using runtime::BackendOptions;
using runtime::CompiledProgram;
using runtime::MemoryReport;
using runtime::WeightPiece;

namespace {

// What a whole program takes besides weights, with its picture.
std::size_t whole_bytes(const CompiledProgram& program, const MemoryReport& planned) {
  std::size_t bytes = planned.arena_bytes + planned.scratch_bytes;
  for (const runtime::Port& port : program.outputs) {
    bytes += static_cast<std::size_t>(port.type.shape.elements()) * dtype_bytes(port.type.dtype);
  }
  return bytes;
}

// What the inner backend is given for the bundle's programs.
BackendOptions options_of(const Bundle& bundle, BackendOptions options) {
  options.picture_memory_limit = 0;
  options.little_scratch = bundle.little_scratch;
  return options;
}

MemoryReport planned_memory(const CompiledProgram& program, const Bundle& bundle,
                            const runtime::Backend& inner, Context& context,
                            const BackendOptions& options) {
  std::vector<MemoryReport> programs;
  programs.reserve(bundle.programs.size());
  for (const CompiledProgram& band : bundle.programs) {
    programs.push_back(inner.plan(band, context, options_of(bundle, options)));
  }
  MemoryReport memory = peak_of(bundle, programs);
  memory.weight_bytes = program.weight_bytes();
  return memory;
}

}  // namespace

CompiledProgram BandBackend::compile(const graph::Graph& graph, Context& context,
                                     const BackendOptions& options) const {
  const std::size_t limit = options.picture_memory_limit;
  BackendOptions own = options;
  own.picture_memory_limit = 0;
  if (limit == 0) {
    return inner_->compile(graph, context, own);
  }
  BundleCompiler compiler(graph, *inner_, context, own);
  CompiledProgram whole = inner_->compile(graph, context, own);
  const std::size_t bytes = whole_bytes(whole, inner_->plan(whole, context, own));
  if (bytes <= limit) {
    whole.notes.insert(whole.notes.begin(),
                       fmt::format("at once: {} besides weights", readable_bytes(bytes)));
    return whole;
  }
  return compiler.compile(limit, bytes);
}

void BandBackend::pack(const CompiledProgram& program, std::int64_t rank,
                       const runtime::WeightSource& weights, runtime::PieceSink& sink,
                       Context& context, const BackendOptions& options) const {
  if (!is_bundle(program)) {
    inner_->pack(program, rank, weights, sink, context, options);
    return;
  }
  std::set<std::string> packed;
  const Bundle bundle = read_bundle(program);
  for (const CompiledProgram& band : bundle.programs) {
    bool fresh = false;
    for (const WeightPiece& piece : band.pieces) {
      fresh = packed.insert(piece.name).second || fresh;
    }
    if (fresh) {
      inner_->pack(band, rank, weights, sink, context, options_of(bundle, options));
    }
  }
}

std::unique_ptr<runtime::Executable> BandBackend::load(
    const CompiledProgram& program,
    std::vector<std::shared_ptr<const runtime::PackedWeights>> weights, Context& context,
    const BackendOptions& options) const {
  if (!is_bundle(program)) {
    return inner_->load(program, std::move(weights), context, options);
  }
  runtime::check_weights(program, weights);
  Bundle bundle = read_bundle(program);
  const MemoryReport memory = planned_memory(program, bundle, *inner_, context, options);
  runtime::check_limit(program, memory, options);
  check(memory.arena_bytes + memory.scratch_bytes <= bundle.limit, ErrorCode::ResourceExhausted,
        "program '{}' needs {} besides weights on {} threads, and was compiled for a limit of {}; "
        "fewer threads need less",
        program.name, size_text(memory.arena_bytes + memory.scratch_bytes), context.threads.size(),
        size_text(bundle.limit));
  for (const WeightPiece& piece : program.pieces) {
    (void)weights[0]->piece(piece);  // found out before minutes of work
  }
  const BackendOptions own = options_of(bundle, options);
  return std::make_unique<BandExecutable>(program, std::move(bundle), memory, std::move(weights),
                                          *inner_, context, own);
}

MemoryReport BandBackend::plan(const CompiledProgram& program, Context& context,
                               const BackendOptions& options) const {
  if (!is_bundle(program)) {
    return inner_->plan(program, context, options);
  }
  return planned_memory(program, read_bundle(program), *inner_, context, options);
}

std::vector<std::string> BandBackend::explain(const CompiledProgram& program, Context& context,
                                              const BackendOptions& options) const {
  if (!is_bundle(program)) {
    return inner_->explain(program, context, options);
  }
  const Bundle bundle = read_bundle(program);
  return lines_of(bundle, *inner_, context, options_of(bundle, options));
}

}  // namespace difflet::bands
