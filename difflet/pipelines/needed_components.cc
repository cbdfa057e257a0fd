#include "difflet/pipelines/needed_components.h"

#include <algorithm>
#include <array>

namespace difflet::pipelines {
namespace {

struct PipelineRow {
  std::string_view name;
  std::array<std::string_view, 7> components;
};

constexpr std::array kPipelines{
    PipelineRow{"FluxPipeline",
                {"scheduler", "tokenizer", "tokenizer_2", "text_encoder", "text_encoder_2",
                 "transformer", "vae"}},
};

}  // namespace

std::vector<std::string> needed_components(std::string_view pipeline_class) {
  const auto* const row = std::ranges::find(kPipelines, pipeline_class, &PipelineRow::name);
  return row == kPipelines.end()
             ? std::vector<std::string>{}
             : std::vector<std::string>(row->components.begin(), row->components.end());
}

}  // namespace difflet::pipelines
