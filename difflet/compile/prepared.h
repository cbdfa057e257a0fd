// A component made ready to load: programs from an artifact of the store, or compiled in this process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "difflet/artifact/store.h"
#include "difflet/compile/component.h"
#include "difflet/compile/staged.h"
#include "difflet/compile/weight_mode.h"

namespace difflet::compile {

// What decides a component's programs besides its folder and shapes.
struct BuildOptions {
  DType dtype = DType::BF16;
  QuantRequest quant;  // for those who open the folders; what a folder was given counts
  spmd::Mesh mesh = {};
  std::int64_t schedule_capacity = 32;        // timesteps of one run of a schedule program
  std::string variant;                        // of the weight files
  const runtime::Backend* backend = nullptr;  // required
  runtime::BackendOptions backend_options;
};

// The options for this component: a limit on the memory of a picture is for those that make one.
BuildOptions for_component(BuildOptions build, const ComponentFolder& folder);

enum class ArtifactMode : std::uint8_t { Auto, Require, Off };

struct ArtifactUse {
  ArtifactMode mode = ArtifactMode::Off;
  std::filesystem::path store;  // root
  WeightMode weights = WeightMode::Auto;
  std::int64_t expected_runs = 1;  // of the step program, for WeightMode::Auto
  std::string compile_command;     // what would make the artifact; for messages
};

// Everything that decides the programs of `shapes`. Reads all weights when the store does not know
// the folder's fingerprint.
artifact::Identity identity_of(const ComponentFolder& folder,
                               std::span<const models::ShapeMap> shapes, const BuildOptions& build,
                               const std::filesystem::path& store, Context& context);

class Prepared {
 public:
  // Programs of shapes[current]; an artifact must hold all of `shapes`. Reads no weight but for a
  // fingerprint. Throws NotFound when an artifact is required and there is none.
  Prepared(std::string name, const ComponentFolder& folder, std::vector<models::ShapeMap> shapes,
           std::size_t current, const BuildOptions& build, const ArtifactUse& use,
           Context& context);

  const std::string& name() const noexcept { return name_; }
  const StagedPrograms& programs() const noexcept { return programs_; }
  const runtime::MemoryReport& planned() const noexcept { return planned_; }
  const std::optional<artifact::Artifact>& artifact() const noexcept { return artifact_; }
  const std::string& miss_reason() const noexcept { return reason_; }  // empty: not looked for

  // `checkpoint` is where weights come from that no artifact has packed. Throws DataLoss for NaN or
  // Inf, naming the tensor; ResourceExhausted over the backend options' memory limit.
  std::unique_ptr<StagedExecutable> load(const runtime::WeightSource& checkpoint) const;

 private:
  using Weights = std::vector<std::shared_ptr<const runtime::PackedWeights>>;

  void look_up(std::span<const models::ShapeMap> shapes);
  Weights packed(const runtime::WeightSource& checkpoint) const;
  Weights stored() const;
  [[noreturn]] void refuse(std::string_view reason) const;

  std::string name_;
  const ComponentFolder* folder_;
  BuildOptions build_;
  ArtifactUse use_;
  Context* context_;
  graph::Graph graph_;
  StagedPrograms programs_;
  runtime::MemoryReport planned_;
  std::optional<artifact::Artifact> artifact_;
  std::string reason_;
};

struct CompileReport {
  std::string key, generation;
  enum class Result : std::uint8_t { Present, Compiled, CompiledWithStoredWeights } result;
  std::uint64_t weight_bytes = 0;  // of all ranks
  double seconds = 0;
};

// Makes the artifact of these shapes unless the store has it: one process at a time for each key.
// `waiting` hears of another one that is at it, and may throw to give up.
CompileReport compile_to_store(const std::string& name, const ComponentFolder& folder,
                               std::span<const models::ShapeMap> shapes, const BuildOptions& build,
                               const artifact::Store& store, Context& context,
                               const runtime::WeightSource& checkpoint,
                               const std::function<void(const std::string&)>& waiting);

}  // namespace difflet::compile
