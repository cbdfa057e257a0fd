#include "difflet/bench/synthetic_parts.h"

#include <initializer_list>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/bench/synthetic_tokenizers.h"
#include "difflet/models/registry.h"

namespace difflet::bench {
namespace {

constexpr const char* kDiffusers = "0.35.1";
constexpr const char* kTransformers = "4.55.0";

Json transformer_config(const SyntheticFlux& recipe) {
  return {{"_class_name", "FluxTransformer2DModel"},
          {"_diffusers_version", kDiffusers},
          {"attention_head_dim", 128},
          {"axes_dims_rope", {16, 56, 56}},
          {"guidance_embeds", true},
          {"in_channels", 64},
          {"joint_attention_dim", 4096},
          {"num_attention_heads", 24},
          {"num_layers", recipe.doubles},
          {"num_single_layers", recipe.singles},
          {"out_channels", nullptr},
          {"patch_size", 1},
          {"pooled_projection_dim", 768}};
}

const std::vector<std::int64_t> kVaeChannels{128, 256, 512, 512};
constexpr std::int64_t kVaeLayers = 2;
constexpr std::int64_t kLatentChannels = 16;

Json vae_config() {
  return {{"_class_name", "AutoencoderKL"},
          {"_diffusers_version", kDiffusers},
          {"act_fn", "silu"},
          {"block_out_channels", kVaeChannels},
          {"down_block_types", std::vector<std::string>(kVaeChannels.size(), "DownEncoderBlock2D")},
          {"force_upcast", true},
          {"in_channels", 3},
          {"latent_channels", kLatentChannels},
          {"latents_mean", nullptr},
          {"latents_std", nullptr},
          {"layers_per_block", kVaeLayers},
          {"mid_block_add_attention", true},
          {"norm_num_groups", 32},
          {"out_channels", 3},
          {"sample_size", 1024},
          {"scaling_factor", 0.3611},
          {"shift_factor", 0.1159},
          {"up_block_types", std::vector<std::string>(kVaeChannels.size(), "UpDecoderBlock2D")},
          {"use_post_quant_conv", false},
          {"use_quant_conv", false}};
}

// CLIP ViT-L/14's text model.
Json clip_config(const SyntheticFlux& recipe) {
  return {{"architectures", {"CLIPTextModel"}},
          {"attention_dropout", 0.0},
          {"bos_token_id", kClipBos},
          {"dropout", 0.0},
          {"eos_token_id", kClipEos},
          {"hidden_act", "quick_gelu"},
          {"hidden_size", 768},
          {"initializer_factor", 1.0},
          {"initializer_range", 0.02},
          {"intermediate_size", 3072},
          {"layer_norm_eps", 1e-5},
          {"max_position_embeddings", 77},
          {"model_type", "clip_text_model"},
          {"num_attention_heads", 12},
          {"num_hidden_layers", recipe.clip_layers},
          {"pad_token_id", kClipEos},
          {"projection_dim", 768},
          {"torch_dtype", "bfloat16"},
          {"transformers_version", kTransformers},
          {"vocab_size", kClipVocabulary}};
}

// The encoder of T5 v1.1 XXL.
Json t5_config(const SyntheticFlux& recipe) {
  return {{"architectures", {"T5EncoderModel"}},
          {"classifier_dropout", 0.0},
          {"d_ff", 10240},
          {"d_kv", 64},
          {"d_model", 4096},
          {"decoder_start_token_id", 0},
          {"dense_act_fn", "gelu_new"},
          {"dropout_rate", 0.0},
          {"eos_token_id", 1},
          {"feed_forward_proj", "gated-gelu"},
          {"initializer_factor", 1.0},
          {"is_encoder_decoder", true},
          {"is_gated_act", true},
          {"layer_norm_epsilon", 1e-6},
          {"model_type", "t5"},
          {"num_decoder_layers", recipe.t5_layers},
          {"num_heads", 64},
          {"num_layers", recipe.t5_layers},
          {"pad_token_id", 0},
          {"relative_attention_max_distance", 128},
          {"relative_attention_num_buckets", 32},
          {"tie_word_embeddings", false},
          {"torch_dtype", "bfloat16"},
          {"transformers_version", kTransformers},
          {"use_cache", false},
          {"vocab_size", kT5Vocabulary}};
}

// What the program of a configuration reads, in bf16; the extents of its inputs do not matter.
std::vector<graph::ParamDecl> traced_params(const Json& config, const models::ShapeMap& inputs) {
  models::ConfigReader reader(config, "synthetic config.json");
  const auto component =
      models::make_component(models::component_class(config, reader.origin()), reader);
  const graph::Graph g = component->trace(inputs, DType::BF16, {});
  return {g.params().begin(), g.params().end()};
}

// The encoder half of AutoencoderKL, which no program here reads but every checkpoint has.
class EncoderParams {
 public:
  explicit EncoderParams(std::vector<graph::ParamDecl>& params) : params_(&params) {}

  void add_all() {
    std::int64_t channels = kVaeChannels.front();
    conv("conv_in", 3, channels, 3);
    for (std::size_t block = 0; block < kVaeChannels.size(); ++block) {
      const std::string path = fmt::format("down_blocks.{}.", block);
      for (std::int64_t i = 0; i < kVaeLayers; ++i) {
        resnet(fmt::format("{}resnets.{}.", path, i), channels, kVaeChannels[block]);
        channels = kVaeChannels[block];
      }
      if (block + 1 < kVaeChannels.size()) {
        conv(path + "downsamplers.0.conv", channels, channels, 3);
      }
    }
    resnet("mid_block.resnets.0.", channels, channels);
    norm("mid_block.attentions.0.group_norm", channels);
    for (const char* name : {"to_q", "to_k", "to_v", "to_out.0"}) {
      tensor(fmt::format("mid_block.attentions.0.{}.weight", name), {channels, channels});
      tensor(fmt::format("mid_block.attentions.0.{}.bias", name), {channels});
    }
    resnet("mid_block.resnets.1.", channels, channels);
    norm("conv_norm_out", channels);
    conv("conv_out", channels, 2 * kLatentChannels, 3);  // mean and log variance
  }

 private:
  void tensor(const std::string& name, const Shape& shape) {
    params_->push_back({.name = "encoder." + name,
                        .aliases = {},
                        .dtype = DType::BF16,
                        .shape = shape,
                        .placement = {}});
  }
  void norm(const std::string& path, std::int64_t channels) {
    tensor(path + ".weight", {channels});
    tensor(path + ".bias", {channels});
  }
  void conv(const std::string& path, std::int64_t in, std::int64_t out, std::int64_t kernel) {
    tensor(path + ".weight", {out, in, kernel, kernel});
    tensor(path + ".bias", {out});
  }
  void resnet(const std::string& path, std::int64_t in, std::int64_t out) {
    norm(path + "norm1", in);
    conv(path + "conv1", in, out, 3);
    norm(path + "norm2", out);
    conv(path + "conv2", out, out, 3);
    if (in != out) {
      conv(path + "conv_shortcut", in, out, 1);
    }
  }

  std::vector<graph::ParamDecl>* params_;
};

Json scheduler_config() {
  return {{"_class_name", "FlowMatchEulerDiscreteScheduler"},
          {"_diffusers_version", kDiffusers},
          {"base_image_seq_len", 256},
          {"base_shift", 0.5},
          {"max_image_seq_len", 4096},
          {"max_shift", 1.15},
          {"num_train_timesteps", 1000},
          {"shift", 3.0},
          {"use_dynamic_shifting", true}};
}

Json model_index() {
  Json index{{"_class_name", "FluxPipeline"}, {"_diffusers_version", kDiffusers}};
  const auto part = [&](const char* name, const char* library, const char* class_name) {
    index[name] = Json::array({library, class_name});
  };
  part("scheduler", "diffusers", "FlowMatchEulerDiscreteScheduler");
  part("text_encoder", "transformers", "CLIPTextModel");
  part("text_encoder_2", "transformers", "T5EncoderModel");
  part("tokenizer", "transformers", "CLIPTokenizer");
  part("tokenizer_2", "transformers", "T5TokenizerFast");
  part("transformer", "diffusers", "FluxTransformer2DModel");
  part("vae", "diffusers", "AutoencoderKL");
  return index;
}

}  // namespace

std::vector<SyntheticPart> synthetic_parts(const SyntheticFlux& recipe) {
  std::vector<SyntheticPart> parts;
  const auto add = [&](const char* folder, const char* weights, Json config,
                       const models::ShapeMap& inputs) {
    auto params = traced_params(config, inputs);
    parts.push_back({folder, weights, std::move(config), std::move(params)});
  };
  add("transformer", "diffusion_pytorch_model", transformer_config(recipe),
      {{"hidden_states", Shape{1, 1, 64}},
       {"encoder_hidden_states", Shape{1, 1, 4096}},
       {"pooled_projections", Shape{1, 768}},
       {"timestep", Shape{1}},
       {"img_ids", Shape{1, 3}},
       {"txt_ids", Shape{1, 3}},
       {"guidance", Shape{1}}});
  add("text_encoder", "model", clip_config(recipe), {{"input_ids", Shape{1, 1}}});
  add("text_encoder_2", "model", t5_config(recipe), {{"input_ids", Shape{1, 1}}});
  add("vae", "diffusion_pytorch_model", vae_config(), {{"z", Shape{1, kLatentChannels, 1, 1}}});
  EncoderParams(parts.back().params).add_all();
  return parts;
}

std::vector<SyntheticFile> synthetic_files() {
  return {{"model_index.json", model_index()},
          {"scheduler/scheduler_config.json", scheduler_config()},
          {"tokenizer/tokenizer.json", clip_tokenizer()},
          {"tokenizer/tokenizer_config.json", clip_tokenizer_config()},
          {"tokenizer_2/tokenizer.json", t5_tokenizer()},
          {"tokenizer_2/tokenizer_config.json", t5_tokenizer_config()}};
}

}  // namespace difflet::bench
