#include "difflet/compile/prepared.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "difflet/artifact/difference.h"
#include "difflet/artifact/fingerprint.h"
#include "difflet/base/error.h"
#include "difflet/base/sha256.h"
#include "difflet/base/units.h"
#include "difflet/base/version.h"
#include "difflet/compile/stored.h"

namespace difflet::compile {
namespace {

namespace fs = std::filesystem;
using artifact::ShardMode;
using artifact::Stage;
using runtime::CompiledProgram;

artifact::ShapeEntry shape_entry(const models::ShapeMap& shapes, const graph::Graph& graph) {
  artifact::ShapeEntry entry;
  for (const auto& [name, shape] : shapes) {
    entry.inputs.emplace(name, graph::Dims(shape.dims().begin(), shape.dims().end()));
  }
  entry.graph = sha256_hex(graph::print(graph));
  return entry;
}

artifact::Identity identity_without_source(const ComponentFolder& folder,
                                           std::vector<artifact::ShapeEntry> shapes,
                                           const BuildOptions& build) {
  artifact::Identity identity;
  identity.model = folder.class_name();
  identity.mesh = build.mesh;
  identity.dtype = build.dtype;
  identity.options["schedule_capacity"] = build.schedule_capacity;
  if (const std::size_t limit = for_component(build, folder).backend_options.picture_memory_limit;
      limit > 0) {
    identity.options["vae_memory_limit"] = static_cast<std::int64_t>(limit);
  }
  if (const std::string quant = folder.quant().label(); !quant.empty()) {
    identity.options["quant"] = quant;
  }
  identity.backend = build.backend->name();
  identity.toolchain = build.backend->toolchain(build.backend_options);
  identity.toolchain["difflet"] = kVersion;
  artifact::add_shapes(identity, std::move(shapes));
  return identity;
}

artifact::Source source(const ComponentFolder& folder, const BuildOptions& build,
                        const fs::path& store, Context& context) {
  artifact::FingerprintReport report;
  artifact::Source found =
      artifact::source_of(folder.path(), build.variant, store, context.threads, &report);
  context.record("fingerprint", report.seconds, report.cached ? "known" : "every weight was read");
  return found;
}

// Why no artifact of any checkpoint would do, so that reading all weights to know this one is not worth
// it; empty where one may.
std::string why_none(const artifact::Store& store, const artifact::Identity& identity) {
  const std::vector<artifact::StoreEntry> entries = store.list();
  std::string nearest;
  std::size_t fewest = 0;
  for (const artifact::StoreEntry& entry : entries) {
    if (!entry.manifest) {
      if (entry.kind == artifact::EntryKind::Artifact) {
        return "";  // damaged: of which model nobody knows
      }
      continue;
    }
    artifact::Identity stored = entry.manifest->identity;
    stored.source = identity.source;  // not known yet
    const std::size_t count =
        artifact::differences(artifact::base_of(stored), artifact::base_of(identity)).size();
    if (count == 0) {
      return "";
    }
    if (stored.model == identity.model && (nearest.empty() || count < fewest)) {
      fewest = count;
      nearest = artifact::describe_difference(entry.key, stored, identity);
    }
  }
  if (entries.empty()) {
    return "";  // a lookup says why
  }
  return nearest.empty()
             ? fmt::format("no artifact in '{}' is of {}", store.root().string(), identity.model)
             : fmt::format("no artifact in '{}' fits; {}", store.root().string(), nearest);
}

// "hidden_states[1,64,8] img_ids[64,3]; ...": of each size the inputs that differ from the wanted ones.
std::string other_sizes(const artifact::ShapeEntry& wanted,
                        const std::vector<artifact::ShapeEntry>& others) {
  std::vector<std::string> sizes;
  for (const artifact::ShapeEntry& other : others) {
    std::vector<std::string> inputs;
    for (const auto& [name, dims] : other.inputs) {
      const auto same = wanted.inputs.find(name);
      if (same == wanted.inputs.end() || same->second != dims) {
        inputs.push_back(fmt::format("{}[{}]", name, fmt::join(dims, ",")));
      }
    }
    if (!inputs.empty()) {
      sizes.push_back(fmt::format("{}", fmt::join(inputs, " ")));
    }
  }
  return fmt::format("{}", fmt::join(sizes, "; "));
}

// Packs all pieces of the programs that `sink` wants.
void pack_all(const std::vector<const CompiledProgram*>& programs, std::int64_t rank,
              const runtime::WeightSource& checkpoint, runtime::PieceSink& sink,
              const BuildOptions& build, Context& context) {
  for (const CompiledProgram* program : programs) {
    build.backend->pack(*program, rank, checkpoint, sink, context, build.backend_options);
  }
}

// Throws DataLoss for a weight that is not there: a damaged file is found before it is used.
void check_pieces(const std::vector<std::shared_ptr<const runtime::PackedWeights>>& weights,
                  const StagedPrograms& programs) {
  for (const CompiledProgram* program : programs.all()) {
    for (const runtime::WeightPiece& piece : program->pieces) {
      for (const auto& rank : weights) {
        (void)rank->piece(piece);
      }
    }
  }
}

}  // namespace

BuildOptions for_component(BuildOptions build, const ComponentFolder& folder) {
  if (!folder.model().makes_picture()) {
    build.backend_options.picture_memory_limit = 0;
  }
  return build;
}

artifact::Identity identity_of(const ComponentFolder& folder,
                               std::span<const models::ShapeMap> shapes, const BuildOptions& build,
                               const fs::path& store, Context& context) {
  std::vector<artifact::ShapeEntry> entries;
  entries.reserve(shapes.size());
  for (const models::ShapeMap& map : shapes) {
    entries.push_back(shape_entry(map, folder.trace(map, build.dtype, build.mesh)));
  }
  artifact::Identity identity = identity_without_source(folder, std::move(entries), build);
  identity.source = source(folder, build, store, context);
  return identity;
}

Prepared::Prepared(std::string name, const ComponentFolder& folder,
                   std::vector<models::ShapeMap> shapes, std::size_t current,
                   const BuildOptions& build, const ArtifactUse& use, Context& context)
    : name_(std::move(name)),
      folder_(&folder),
      build_(for_component(build, folder)),
      use_(use),
      context_(&context) {
  require(current < shapes.size(), "shapes without the current one");
  const Stopwatch trace;
  graph_ = folder.trace(shapes[current], build.dtype, build.mesh);
  context.record(name_ + ": trace", trace.seconds());
  if (use_.mode != ArtifactMode::Off) {
    const Stopwatch lookup;
    std::swap(shapes.front(), shapes[current]);
    look_up(shapes);
    context.record(name_ + ": lookup", lookup.seconds(),
                   artifact_ ? "artifact " + artifact_->key() : reason_);
  }
  if (!artifact_) {
    if (use_.mode == ArtifactMode::Require) {
      refuse(reason_);
    }
    const Stopwatch compile;
    programs_ = compile_programs(graph_, build_.schedule_capacity, *build_.backend, context,
                                 build_.backend_options);
    const bool limited = build_.backend_options.picture_memory_limit > 0;
    context.record(name_ + ": compile", compile.seconds(),
                   limited ? programs_.step.notes.front() : "");
    const Stopwatch plan;
    planned_ = planned_memory(programs_, *build_.backend, context, build_.backend_options);
    context.record(name_ + ": plan", plan.seconds());
  }
}

// The first of `shapes` is the one to run.
void Prepared::look_up(std::span<const models::ShapeMap> shapes) {
  const artifact::Store store(use_.store);
  std::error_code absent;
  if (!fs::is_directory(use_.store / "artifacts", absent)) {
    reason_ = fmt::format("there is no artifact store in {}", use_.store.string());
    return;
  }
  std::vector<artifact::ShapeEntry> entries{shape_entry(shapes.front(), graph_)};
  for (const models::ShapeMap& map : shapes.subspan(1)) {
    entries.push_back(shape_entry(map, folder_->trace(map, build_.dtype, build_.mesh)));
  }
  const artifact::ShapeEntry wanted = entries.front();
  artifact::Identity identity = identity_without_source(*folder_, std::move(entries), build_);
  if (const auto known = artifact::known_source(folder_->path(), folder_->checkpoint(),
                                                build_.variant, use_.store)) {
    identity.source = *known;
  } else if (reason_ = why_none(store, identity); !reason_.empty()) {
    return;
  } else {
    identity.source = source(*folder_, build_, use_.store, *context_);
  }
  const artifact::Lookup found = store.find(identity);
  reason_ = found.reason;
  if (!found.artifact) {
    if (const std::string sizes = other_sizes(wanted, found.others); !sizes.empty()) {
      reason_ += "; it is there for " + sizes;
    }
    return;
  }
  artifact_ = found.artifact;
  if (artifact_->weight_state() == artifact::WeightState::Absent &&
      use_.mode == ArtifactMode::Require) {
    refuse(artifact_->weight_reason());
  }
  try {
    programs_ = stored_programs(*artifact_, wanted, build_.schedule_capacity);
    // A manifest that does not fit its programs is found out here.
    planned_ = planned_memory(programs_, *build_.backend, *context_, build_.backend_options);
  } catch (const Error& e) {
    artifact_.reset();
    reason_ = e.message();
  }
}

void Prepared::refuse(std::string_view reason) const {
  fail(ErrorCode::NotFound, "{}: no artifact: {}; '{}' makes it", name_, reason,
       use_.compile_command);
}

Prepared::Weights Prepared::packed(const runtime::WeightSource& checkpoint) const {
  const Stopwatch watch;
  const auto all = programs_.all();
  Weights weights;
  std::size_t bytes = 0;
  for (std::int64_t rank = 0; rank < programs_.step.mesh.ranks(); ++rank) {
    auto memory = std::make_shared<runtime::MemoryWeights>(all);
    pack_all(all, rank, checkpoint, *memory, build_, *context_);
    bytes += memory->bytes();
    weights.push_back(std::move(memory));
  }
  context_->record(name_ + ": weights", watch.seconds(),
                   fmt::format("{} packed from the checkpoint", readable_bytes(bytes)));
  return weights;
}

Prepared::Weights Prepared::stored() const {
  const Stopwatch watch;
  std::vector<std::size_t> ranks(artifact_->ranks());
  std::iota(ranks.begin(), ranks.end(), 0);
  artifact::ShardReport report;
  const bool copy = use_.weights == WeightMode::Copy;
  Weights weights = artifact_->open_weights(ranks, copy ? ShardMode::Copied : ShardMode::Mapped,
                                            context_->threads, &report);
  check_pieces(weights, programs_);
  std::string detail =
      fmt::format("{} {}", readable_bytes(report.bytes), artifact::shard_mode_name(report.mode));
  // A copy reads everything once and writes it: two passes do not win that back.
  if (use_.weights == WeightMode::Auto && use_.expected_runs > 2) {
    constexpr std::size_t kSample = std::size_t{8} << 20U;
    const auto& pieces = programs_.step.pieces;
    const auto largest =
        std::max_element(pieces.begin(), pieces.end(),
                         [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    if (largest != pieces.end() && largest->bytes >= kSample) {
      const WeightModeProbe probe = probe_weight_mode(
          weights.front()->piece(*largest).first(kSample), report.bytes, use_.expected_runs);
      if (probe.mode == ShardMode::Copied) {
        weights = artifact_->open_weights(ranks, ShardMode::Copied, context_->threads, &report);
      }
      detail = fmt::format("{} {}: {}", readable_bytes(report.bytes),
                           artifact::shard_mode_name(report.mode), probe.text());
    }
  }
  context_->record(name_ + ": weights", watch.seconds(), std::move(detail));
  return weights;
}

std::unique_ptr<StagedExecutable> Prepared::load(const runtime::WeightSource& checkpoint) const {
  const std::size_t limit = build_.backend_options.memory_limit;
  check(limit == 0 || planned_.total() <= limit, ErrorCode::ResourceExhausted,
        "{} needs {} (weights, activations and working memory), {} are available", name_,
        readable_bytes(planned_.total()), readable_bytes(limit));
  Weights weights;
  std::string reason;
  if (artifact_ && artifact_->weight_state() == artifact::WeightState::Present) {
    try {
      weights = stored();
    } catch (const Error& e) {
      if (e.code() != ErrorCode::DataLoss && e.code() != ErrorCode::NotFound &&
          e.code() != ErrorCode::Unavailable) {
        throw;
      }
      reason = e.message();
    }
  } else if (artifact_) {
    reason = artifact_->weight_reason();
  }
  if (!reason.empty()) {
    if (use_.mode == ArtifactMode::Require) {
      refuse(reason);
    }
    context_->log.warn("{}: artifact {} without weights ({}): packing them from the checkpoint",
                       name_, artifact_->key(), reason);
  }
  if (weights.empty()) {
    weights = packed(checkpoint);
  }
  const Stopwatch watch;
  auto executable = std::make_unique<StagedExecutable>(programs_, weights, *build_.backend,
                                                       *context_, build_.backend_options);
  context_->record(name_ + ": load", watch.seconds());
  return executable;
}

namespace {

// Programs of all shapes of an identity, by its order.
std::vector<StagedPrograms> compile_shapes(const ComponentFolder& folder,
                                           std::span<const models::ShapeMap> shapes,
                                           const artifact::Identity& identity,
                                           const BuildOptions& build, Context& context) {
  std::vector<StagedPrograms> programs(identity.shapes.size());
  for (const models::ShapeMap& map : shapes) {
    const graph::Graph graph = folder.trace(map, build.dtype, build.mesh);
    const auto place =
        std::find(identity.shapes.begin(), identity.shapes.end(), shape_entry(map, graph));
    require(place != identity.shapes.end(), "shapes that their identity does not hold");
    programs[static_cast<std::size_t>(place - identity.shapes.begin())] =
        compile_programs(graph, build.schedule_capacity, *build.backend, context,
                         for_component(build, folder).backend_options);
  }
  return programs;
}

void add_programs(artifact::Publication& publication, std::size_t shape,
                  const StagedPrograms& programs) {
  if (programs.request) {
    publication.add_program(shape, Stage::Request, *programs.request);
  }
  if (programs.schedule) {
    publication.add_program(shape, Stage::Schedule, *programs.schedule);
  }
  publication.add_program(shape, Stage::Step, programs.step);
}

// Whether all of an artifact but the bytes of its weights is as it was written.
bool is_intact(const artifact::Artifact& artifact, const BuildOptions& build, Context& context) {
  try {
    artifact.check_weights();
    for (const artifact::ShapeEntry& shape : artifact.manifest().identity.shapes) {
      (void)planned_memory(stored_programs(artifact, shape, build.schedule_capacity),
                           *build.backend, context, build.backend_options);
    }
    return true;
  } catch (const Error& e) {
    context.log.warn("artifact {} is made anew: {}", artifact.key(), e.message());
    return false;
  }
}

}  // namespace

CompileReport compile_to_store(const std::string& name, const ComponentFolder& folder,
                               std::span<const models::ShapeMap> shapes, const BuildOptions& build,
                               const artifact::Store& store, Context& context,
                               const runtime::WeightSource& checkpoint,
                               const std::function<void(const std::string&)>& waiting) {
  using Result = CompileReport::Result;
  const Stopwatch watch;
  const artifact::Identity identity = identity_of(folder, shapes, build, store.root(), context);
  const auto report = [&](const artifact::Artifact& artifact, Result result) {
    return CompileReport{.key = artifact.key(),
                         .generation = artifact.generation(),
                         .result = result,
                         .weight_bytes = artifact.weight_bytes(),
                         .seconds = watch.seconds()};
  };
  artifact::PublishRequest request{
      .what = fmt::format("compiling {}", folder.class_name()),
      .waiting = waiting,
      .schedule_capacity = build.schedule_capacity,
      .metadata = {{"component", name},
                   {"model", folder.path().parent_path().filename().string()}}};
  std::optional<artifact::Publication> begun = store.publish(identity, request);
  if (begun->found()) {
    if (is_intact(*begun->found(), build, context)) {
      return report(*begun->found(), Result::Present);
    }
    begun.reset();  // lets go of the lock
    request.existing = artifact::PublishRequest::Existing::Replace;
    begun = store.publish(identity, request);
  }
  artifact::Publication& publication = *begun;
  const std::vector<StagedPrograms> programs =
      compile_shapes(folder, shapes, identity, build, context);
  std::vector<const CompiledProgram*> all;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    add_programs(publication, i, programs[i]);
    const auto parts = programs[i].all();
    all.insert(all.end(), parts.begin(), parts.end());
  }
  if (publication.weights()) {
    return report(publication.keep(), Result::CompiledWithStoredWeights);
  }
  const auto ranks = static_cast<std::size_t>(programs.front().step.mesh.ranks());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    pack_all(all, static_cast<std::int64_t>(rank), checkpoint, publication.begin_shard(rank), build,
             context);
    publication.end_shard();
  }
  return report(publication.keep(), Result::Compiled);
}

}  // namespace difflet::compile
