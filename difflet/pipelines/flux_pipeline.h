// FLUX.1: prompt -> CLIP and T5 -> flow-match Euler over the transformer -> VAE -> pictures, as
// diffusers' FluxPipeline computes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "difflet/base/context.h"
#include "difflet/io/image.h"
#include "difflet/pipelines/flux_shapes.h"
#include "difflet/pipelines/latents.h"
#include "difflet/pipelines/model_index.h"
#include "difflet/pipelines/observer.h"
#include "difflet/pipelines/resident.h"
#include "difflet/sampling/flow_match_euler.h"
#include "difflet/text/tokenizer.h"

namespace difflet::pipelines {

struct GenerateRequest {
  std::string prompt;                          // UTF-8, may be empty
  std::optional<std::string> negative_prompt;  // counts when true_cfg_scale is above 1
  std::optional<std::int64_t> width, height;   // pixels; nothing: the VAE's sample_size
  std::int64_t n = 1;                          // pictures, their noise drawn at once
  std::int64_t steps = 28;
  double guidance = 3.5;
  double true_cfg_scale = 1.0;
  std::uint64_t seed = 0;
  std::int64_t max_sequence_length = 512;  // T5 tokens

  bool uses_true_cfg() const { return negative_prompt.has_value() && true_cfg_scale > 1; }
};

// What the networks make of a prompt.
struct TextEmbedding {
  HostTensor tokens;  // [1, T, D] of T5
  HostTensor pooled;  // [1, D] of CLIP
};

// One line for each component.
struct ComponentMemory {
  std::string name;
  std::size_t bytes = 0;
};

class FluxPipeline {
 public:
  // Opens tokenizers, scheduler and components: every problem that configs and headers show is
  // thrown here. Reads no weight. `context` and the backend must outlive the pipeline.
  FluxPipeline(const std::filesystem::path& folder, const PipelineOptions& options,
               Context& context);
  FluxPipeline(const FluxPipeline&) = delete;
  FluxPipeline& operator=(const FluxPipeline&) = delete;

  // The request with its sizes filled in. Throws InvalidArgument for a size that is not legal,
  // naming the nearest ones, for steps that the scheduler does not have, and for text that is not
  // UTF-8.
  GenerateRequest resolved(GenerateRequest request) const;
  // Plans the programs of a resolved request and compares their tensors with the files; reads no
  // weight. Throws ResourceExhausted, with what is needed, when it cannot fit the memory limit.
  std::vector<ComponentMemory> prepare(const GenerateRequest& request);
  // Loads what the prepared request will keep, so that generate() need not; nothing when memory does not
  // hold all at once.
  void load(Observer& observer);
  // Final latents of a resolved request, packed: [n, I, C]. Throws as generate().
  HostTensor latents(const GenerateRequest& request, Observer& observer);
  // Pictures of a resolved request. Programs stay loaded for the next one when all fit in memory,
  // else each is let go after its stage. Throws DataLoss when a number is not finite.
  std::vector<io::Image> generate(const GenerateRequest& request, Observer& observer);

  const std::string& class_name() const noexcept { return index_.pipeline; }
  std::vector<const Resident*> components() const;
  ProgramSize program_size(const GenerateRequest& request) const;  // of a resolved request
  bool uses_guidance() const noexcept { return guidance_embeds_; }
  // Inputs of a component for every size that the options allow, or for the request's alone.
  std::vector<models::ShapeMap> shapes(const Resident& component,
                                       const GenerateRequest& request) const;

 private:
  enum class Keep { Loaded, OneAtATime };

  void check_fit() const;
  void check_allowed(const PictureSize& size) const;
  LatentSize latent_size(const GenerateRequest& request) const;
  void prepare_components(const GenerateRequest& request);
  std::size_t planned_bytes() const;
  std::size_t largest_stage() const;
  [[noreturn]] void refuse_memory(const GenerateRequest& request, std::size_t needed);

  TextEmbedding encode(const std::string& prompt, const std::string& prefix,
                       const GenerateRequest& request, Observer& observer);
  void warn_dropped(std::string_view encoder, std::int64_t length, const std::string& dropped);
  HostTensor denoise(const GenerateRequest& request, HostTensor latents,
                     const TextEmbedding& positive, const std::optional<TextEmbedding>& negative,
                     Observer& observer);
  std::vector<io::Image> decode(const GenerateRequest& request, const HostTensor& latents,
                                Observer& observer);
  void after_stage(std::initializer_list<Resident*> used);

  PipelineOptions options_;
  Context* context_;
  ModelIndex index_;
  sampling::FlowMatchEulerConfig scheduler_;
  std::unique_ptr<text::Tokenizer> tokenizer_, tokenizer_2_;
  Resident text_encoder_, text_encoder_2_, transformer_, vae_;
  bool guidance_embeds_ = false;
  std::int64_t clip_length_ = 0;  // tokens that CLIP reads
  std::int64_t vae_scale_ = 1;    // pixels for each latent
  Keep keep_ = Keep::Loaded;
};

}  // namespace difflet::pipelines
