#include "difflet/compile/stored.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "difflet/base/error.h"

namespace difflet::compile {
namespace {

using artifact::Stage;

std::optional<runtime::CompiledProgram> optional_program(const artifact::Artifact& artifact,
                                                         std::size_t shape, Stage stage) {
  const auto& programs = artifact.manifest().programs;
  const bool there = std::any_of(programs.begin(), programs.end(), [&](const auto& record) {
    return record.shape == shape && record.stage == stage;
  });
  return there ? std::optional(artifact.program(shape, stage)) : std::nullopt;
}

}  // namespace

StagedPrograms stored_programs(const artifact::Artifact& artifact, std::size_t shape,
                               std::int64_t capacity) {
  return {.request = optional_program(artifact, shape, Stage::Request),
          .schedule = optional_program(artifact, shape, Stage::Schedule),
          .step = artifact.program(shape, Stage::Step),
          .capacity = capacity};
}

StagedPrograms stored_programs(const artifact::Artifact& artifact,
                               const artifact::ShapeEntry& shape, std::int64_t capacity) {
  const auto index = artifact.shape_index(shape);
  require(index.has_value(), "an artifact without the shapes that it was found for");
  return stored_programs(artifact, *index, capacity);
}

std::unique_ptr<StagedExecutable> load_stored(const artifact::Artifact& artifact,
                                              const StagedPrograms& programs,
                                              const runtime::Backend& backend, Context& context,
                                              const runtime::BackendOptions& options) {
  check(artifact.weight_state() == artifact::WeightState::Present, ErrorCode::NotFound,
        "artifact {} is without weights: {}", artifact.key(), artifact.weight_reason());
  std::vector<std::size_t> ranks(artifact.ranks());
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto weights = artifact.open_weights(ranks, artifact::ShardMode::Copied, context.threads);
  return std::make_unique<StagedExecutable>(programs, weights, backend, context, options);
}

}  // namespace difflet::compile
