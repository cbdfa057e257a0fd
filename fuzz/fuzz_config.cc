// Hostile configurations: of a component (then traced in a small size), of a scheduler (then a
// schedule), or a model_index.json; told apart by their class.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/fuzz.h"

#include "difflet/compile/quant.h"
#include "difflet/models/registry.h"
#include "difflet/pipelines/flux_shapes.h"
#include "difflet/pipelines/model_index.h"
#include "difflet/pipelines/scheduler_config.h"

namespace {

using difflet::Json;

// Tracing thousands of layers is right but slow.
bool is_deep(const Json& config) {
  for (const char* key :
       {"num_layers", "num_single_layers", "num_hidden_layers", "layers_per_block"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_number() && found->get<double>() > 4) {
      return true;
    }
  }
  return false;
}

void try_component(const Json& config) {
  const std::string name = difflet::models::component_class(config, "config.json");
  difflet::models::ConfigReader reader(config, "config.json");
  const auto component = difflet::models::make_component(name, reader);
  (void)reader.unknown();
  if (const auto quant = difflet::compile::read_quant_config(config, "config.json", *component)) {
    (void)quant->label();
    const auto again = difflet::compile::read_quant_config(
        {{difflet::compile::kQuantConfigField, difflet::compile::quant_config(*quant)}},
        "config.json", *component);
    difflet::fuzz::law(again && again->layers == quant->layers && again->mode == quant->mode,
                       "a quantization_config that reads back as another one");
  }
  if (!is_deep(config)) {
    const difflet::pipelines::ProgramSize size{
        .n = 2, .latent_height = 4, .latent_width = 6, .clip_tokens = 5, .t5_tokens = 7};
    difflet::graph::verify(component->trace(difflet::pipelines::flux_shapes(*component, size),
                                            difflet::DType::BF16, {}));
  }
}

void try_scheduler(const Json& config) {
  difflet::models::ConfigReader reader(config, "scheduler_config.json");
  const auto scheduler = difflet::pipelines::read_scheduler_config(reader);
  (void)difflet::sampling::make_schedule(scheduler, 4, difflet::sampling::linear_sigmas(4),
                                         difflet::sampling::calculate_shift(1024, scheduler));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return difflet::fuzz::refuse_or_accept([&] {
    const Json json =
        difflet::parse_json({reinterpret_cast<const char*>(data), size}, "config.json");
    const auto name = json.is_object() ? json.find("_class_name") : json.end();
    const std::string class_name =
        json.is_object() && name != json.end() && name->is_string() ? name->get<std::string>() : "";
    if (class_name.ends_with("Pipeline")) {
      (void)difflet::pipelines::parse_model_index(json, "model");
    } else if (class_name.ends_with("Scheduler")) {
      try_scheduler(json);
    } else {
      try_component(json);
    }
  });
}
