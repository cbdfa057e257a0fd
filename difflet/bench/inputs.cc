#include "difflet/bench/inputs.h"

#include <algorithm>

#include "difflet/base/error.h"
#include "difflet/base/rng.h"
#include "difflet/compile/component.h"
#include "difflet/models/autoencoders/kl.h"
#include "difflet/models/encoders/clip.h"
#include "difflet/models/encoders/t5.h"
#include "difflet/pipelines/flux_shapes.h"
#include "difflet/pipelines/latents.h"
#include "difflet/pipelines/model_index.h"

namespace difflet::bench {
namespace {

namespace fs = std::filesystem;

std::int64_t vae_scale(const fs::path& model, Log& log) {
  const auto place = pipelines::find_component(model, "vae");
  return compile::ComponentFolder::open(place.folder, place.class_name, "", log)
      .as<autoencoders::KlDecoder>()
      .config()
      .scale();
}

std::int64_t vocabulary(const models::Component& component) {
  if (const auto* clip = dynamic_cast<const encoders::ClipTextModel*>(&component)) {
    return clip->config().vocab_size;
  }
  if (const auto* t5 = dynamic_cast<const encoders::T5Encoder*>(&component)) {
    return t5->config().vocab_size;
  }
  return 1;
}

HostTensor made_input(const std::string& name, const Shape& shape, const Scenario& scenario,
                      const pipelines::LatentSize& latents, std::int64_t ids,
                      TorchGenerator& noise) {
  if (name == "input_ids") {
    HostTensor out(DType::I32, shape);
    for (std::int32_t& id : out.mutable_as<std::int32_t>()) {
      id = static_cast<std::int32_t>(noise.next32() % static_cast<std::uint32_t>(ids));
    }
    return out;
  }
  if (name == "img_ids") {
    return pipelines::image_positions(latents, DType::F32);
  }
  HostTensor out(DType::F32, shape);
  const std::span<float> values = out.mutable_as<float>();
  if (name == "timestep") {
    std::ranges::fill(values, 0.5F);
  } else if (name == "guidance") {
    std::ranges::fill(values, static_cast<float>(scenario.guidance));
  } else if (name != "txt_ids") {
    noise.randn(values);
  }
  return out;
}

}  // namespace

std::map<std::string, HostTensor> component_inputs(const Scenario& scenario, const fs::path& model,
                                                   Log& log) {
  const auto place = pipelines::find_component(model, scenario.component);
  const auto folder = compile::ComponentFolder::open(place.folder, place.class_name, "", log);
  const std::int64_t scale = vae_scale(model, log);  // pixels a latent
  check(scenario.width % (2 * scale) == 0 && scenario.height % (2 * scale) == 0,
        ErrorCode::InvalidArgument, "{}: {}x{} is not a multiple of {}", scenario.name,
        scenario.width, scenario.height, 2 * scale);
  const pipelines::ProgramSize size{.n = scenario.n,
                                    .latent_height = scenario.height / scale,
                                    .latent_width = scenario.width / scale,
                                    .clip_tokens = 0,
                                    .t5_tokens = scenario.max_sequence_length};
  const pipelines::LatentSize latents{
      .n = scenario.n, .channels = 0, .height = size.latent_height, .width = size.latent_width};
  TorchGenerator noise(scenario.seed);
  std::map<std::string, HostTensor> inputs;
  for (const auto& [name, shape] : pipelines::flux_shapes(folder.model(), size)) {
    inputs.emplace(name,
                   made_input(name, shape, scenario, latents, vocabulary(folder.model()), noise));
  }
  return inputs;
}

}  // namespace difflet::bench
