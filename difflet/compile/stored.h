// A component out of an artifact alone: no checkpoint is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "difflet/artifact/store.h"
#include "difflet/compile/staged.h"

namespace difflet::compile {

// The programs of one of an artifact's sizes, counted as in its manifest; one run of the schedule program
// takes `capacity` timesteps. Throws DataLoss for damaged ones.
StagedPrograms stored_programs(const artifact::Artifact& artifact, std::size_t shape,
                               std::int64_t capacity);
// The same for a size that it was found for.
StagedPrograms stored_programs(const artifact::Artifact& artifact,
                               const artifact::ShapeEntry& shape, std::int64_t capacity);

// Loads programs with the artifact's weights, copied to huge pages. Throws NotFound when they are not in
// the store, DataLoss when they are damaged or lack a piece, and what the backend throws.
std::unique_ptr<StagedExecutable> load_stored(const artifact::Artifact& artifact,
                                              const StagedPrograms& programs,
                                              const runtime::Backend& backend, Context& context,
                                              const runtime::BackendOptions& options);

}  // namespace difflet::compile
