// The options of the commands that deal with artifacts, as values; and the components that they mean.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "difflet/base/context.h"
#include "difflet/base/options.h"
#include "difflet/compile/prepared.h"
#include "difflet/pipelines/flux_pipeline.h"

namespace difflet::cli {

// --cache-dir, else $XDG_CACHE_HOME/difflet, else ~/.cache/difflet. Throws InvalidArgument when there is
// none of them.
std::filesystem::path cache_dir(const OptionValues& options);
// --vae-memory-limit in bytes; 0 without it.
std::size_t picture_memory_limit(const OptionValues& options);
// Throws InvalidArgument for --vae-memory-limit on a component that makes no picture.
void check_picture_limit(const OptionValues& options, const compile::ComponentFolder& folder);
// --quant and --quant-groups.
compile::QuantRequest quant_request(const OptionValues& options);
compile::BuildOptions build_options(const OptionValues& options);
compile::ArtifactUse artifact_use(const OptionValues& options);
// --shapes; throws InvalidArgument for what is not WIDTHxHEIGHT,...
std::vector<pipelines::PictureSize> picture_sizes(const OptionValues& options);
pipelines::PipelineOptions pipeline_options(const OptionValues& options);
// The difflet compile command whose artifact this command would use.
std::string compile_command(const OptionValues& options);
// Shapes of the tensors of a safetensors file.
models::ShapeMap input_shapes(const std::filesystem::path& file);
// All tensors of a safetensors file. Throws Unsupported for a dtype that no input has.
compile::NamedTensors read_inputs(const std::filesystem::path& file);
// --component, else the name of its folder.
std::string component_name(const OptionValues& options, const compile::ComponentFolder& folder);
// One line on standard error about the components that no artifact was found for, unless --quiet.
void tell_artifacts(const OptionValues& options, const compile::ArtifactUse& use,
                    const std::vector<const compile::Prepared*>& components);
// What --timings prints.
void print_timings(const Timings& timings);

// A component and all the shapes that its artifact is to hold.
struct Target {
  std::string name;
  const compile::ComponentFolder* folder = nullptr;
  std::vector<models::ShapeMap> shapes;
};

// What --model, --component and --inputs name: the components of a pipeline, or one of them.
class Targets {
 public:
  Targets(const OptionValues& options, Context& context);
  const std::vector<Target>& all() const& noexcept { return all_; }
  const std::vector<Target>& all() const&& = delete;

 private:
  void add_pipeline(const OptionValues& options, Context& context);
  void add_component(const OptionValues& options, Context& context);

  std::unique_ptr<pipelines::FluxPipeline> pipeline_;
  std::optional<compile::ComponentFolder> folder_;
  std::vector<Target> all_;
};

}  // namespace difflet::cli
