#include "difflet/pipelines/flux_pipeline.h"

#include <algorithm>
#include <array>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/base/units.h"
#include "difflet/models/autoencoders/kl.h"
#include "difflet/models/encoders/clip.h"
#include "difflet/models/encoders/t5.h"
#include "difflet/models/flux/transformer.h"
#include "difflet/pipelines/flux_shapes.h"
#include "difflet/pipelines/postprocess.h"
#include "difflet/pipelines/scheduler_config.h"
#include "difflet/pipelines/stage.h"
#include "difflet/runtime/checks.h"
#include "difflet/sampling/rounding.h"

namespace difflet::pipelines {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPipeline = "FluxPipeline";

ModelIndex open_index(const fs::path& folder) {
  ModelIndex index = read_model_index(folder);
  check(index.pipeline == kPipeline, ErrorCode::Unsupported,
        "{}: pipeline class {} is not supported; {} is", folder.string(), index.pipeline,
        kPipeline);
  return index;
}

Resident open_component(const ModelIndex& index, const std::string& name, std::string_view expected,
                        const PipelineOptions& options, Context& context) {
  const std::string& class_name = index.class_of(name);
  check(class_name == expected, ErrorCode::Unsupported, "{}: {} is a {}; {} takes a {} there",
        index.folder.string(), name, class_name, kPipeline, expected);
  return {name,
          compile::ComponentFolder::open(index.folder / name, class_name, options.build.variant,
                                         context.log),
          options, context};
}

sampling::FlowMatchEulerConfig open_listed_scheduler(const ModelIndex& index, Log& log) {
  constexpr std::string_view kExpected = "FlowMatchEulerDiscreteScheduler";
  const std::string& class_name = index.class_of("scheduler");
  check(class_name == kExpected, ErrorCode::Unsupported,
        "{}: scheduler is a {}; {} takes a {} there", index.folder.string(), class_name, kPipeline,
        kExpected);
  return open_scheduler(index.folder / "scheduler", log);
}

std::unique_ptr<text::Tokenizer> open_tokenizer(const ModelIndex& index, const std::string& name) {
  const fs::path folder = index.folder / name;
  check(fs::is_directory(folder), ErrorCode::NotFound, "{}: component folder not found",
        folder.string());
  return text::open_tokenizer(folder, index.class_of(name));
}

// [1, L]; every id must have a row in the encoder's table.
HostTensor ids_tensor(const text::Ids& ids, std::int64_t vocab_size, std::string_view encoder) {
  for (const std::int32_t id : ids) {
    check(id >= 0 && id < vocab_size, ErrorCode::DataLoss,
          "the tokenizer gives id {}, but {} has a vocabulary of {}", id, encoder, vocab_size);
  }
  return HostTensor::from({1, static_cast<std::int64_t>(ids.size())},
                          std::span<const std::int32_t>(ids));
}

// [1, ...] to [n, ...].
HostTensor repeated(const HostTensor& one, std::int64_t n) {
  HostTensor out(one.dtype(), one.shape().with(0, n));
  const std::span<const std::byte> from = one.bytes();
  const std::span<std::byte> to = out.mutable_bytes();
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    std::copy(from.begin(), from.end(), to.begin() + static_cast<std::ptrdiff_t>(i * from.size()));
  }
  return out;
}

HostTensor filled(DType dtype, std::int64_t n, float value) {
  return sampling::make_tensor(dtype, {n}, [value](std::size_t) { return value; });
}

// The transformer's timesteps of a schedule, t / 1000: [steps, n]. Rounded before the division too, as
// the original's tensor is.
HostTensor timestep_rows(const sampling::Schedule& schedule, std::int64_t n, DType dtype) {
  const auto steps = static_cast<std::int64_t>(schedule.timesteps.size());
  return sampling::make_tensor(dtype, {steps, n}, [&](std::size_t i) {
    return sampling::rounded(schedule.timesteps[i / static_cast<std::size_t>(n)], dtype) / 1000.0F;
  });
}

// One text's way through the denoiser.
struct Conditioning {
  compile::NamedTensors inputs;  // bound to the request
  compile::StagedExecutable::Request request;
};

void check_finite(const HostTensor& tensor, const std::string& what) {
  try {
    runtime::check_finite(what, tensor);
  } catch (const Error& e) {
    fail(ErrorCode::DataLoss, "{}: no picture is made of it", e.message());
  }
}

// Throws what encoding would throw.
void check_text(const text::Tokenizer& tokenizer, const std::string& text, std::string_view what) {
  try {
    (void)tokenizer.encode(text);
  } catch (Error& e) {
    e.add_context(what);
    throw;
  }
}

std::string legal_sizes(std::int64_t size, std::int64_t multiple) {
  const std::int64_t below = size / multiple * multiple;
  return below == 0 ? fmt::format("{}", multiple)
                    : fmt::format("{} and {}", below, below + multiple);
}

}  // namespace

FluxPipeline::FluxPipeline(const fs::path& folder, const PipelineOptions& options, Context& context)
    : options_(options),
      context_(&context),
      index_(open_index(folder)),
      scheduler_(open_listed_scheduler(index_, context.log)),
      tokenizer_(open_tokenizer(index_, "tokenizer")),
      tokenizer_2_(open_tokenizer(index_, "tokenizer_2")),
      text_encoder_(open_component(index_, "text_encoder", "CLIPTextModel", options_, context)),
      text_encoder_2_(
          open_component(index_, "text_encoder_2", "T5EncoderModel", options_, context)),
      transformer_(
          open_component(index_, "transformer", "FluxTransformer2DModel", options_, context)),
      vae_(open_component(index_, "vae", "AutoencoderKL", options_, context)) {
  require(options.build.backend != nullptr, "a pipeline without a backend");
  check_fit();
  compile::quantise(std::array{&text_encoder_.folder(), &text_encoder_2_.folder(),
                               &transformer_.folder(), &vae_.folder()},
                    options.build.quant);
  const auto& clip = text_encoder_.folder().as<encoders::ClipTextModel>().config();
  clip_length_ =
      tokenizer_->max_length() > 0 ? tokenizer_->max_length() : clip.max_position_embeddings;
  guidance_embeds_ = transformer_.folder().as<flux::Transformer>().config().guidance_embeds;
  vae_scale_ = vae_.folder().as<autoencoders::KlDecoder>().config().scale();
}

// What one component makes must be what the next one takes.
void FluxPipeline::check_fit() const {
  const auto& clip = text_encoder_.folder().as<encoders::ClipTextModel>().config();
  const auto& t5 = text_encoder_2_.folder().as<encoders::T5Encoder>().config();
  const auto& flux = transformer_.folder().as<flux::Transformer>().config();
  const auto& vae = vae_.folder().as<autoencoders::KlDecoder>().config();
  const auto same = [&](std::int64_t a, std::string_view a_name, std::int64_t b,
                        std::string_view b_name) {
    check(a == b, ErrorCode::InvalidArgument, "{}: {} is {}, but {} is {}", index_.folder.string(),
          a_name, a, b_name, b);
  };
  same(flux.pooled_projection_dim, "transformer's pooled_projection_dim", clip.hidden_size,
       "text_encoder's hidden_size");
  same(flux.joint_attention_dim, "transformer's joint_attention_dim", t5.d_model,
       "text_encoder_2's d_model");
  same(flux.in_channels, "transformer's in_channels", 4 * vae.latent_channels,
       "4 * vae's latent_channels");
  same(flux.out_channels, "transformer's out_channels", flux.in_channels, "its in_channels");
  same(static_cast<std::int64_t>(flux.axes_dims_rope.size()),
       "the number of transformer's axes_dims_rope", 3, "the number of a position's axes");
  same(vae.out_channels, "vae's out_channels", 3, "the number of colours");
}

GenerateRequest FluxPipeline::resolved(GenerateRequest request) const {
  const std::int64_t sample_size = vae_.folder().as<autoencoders::KlDecoder>().config().sample_size;
  const std::int64_t multiple = 2 * vae_scale_;
  if (!options_.sizes.empty() && !request.width && !request.height) {
    request.width = options_.sizes.front().width;
    request.height = options_.sizes.front().height;
  }
  const auto size = [&](std::optional<std::int64_t> given, std::string_view name) {
    const std::int64_t value = given.value_or(sample_size);
    check(value > 0 && value % multiple == 0, ErrorCode::InvalidArgument,
          "{}: {}{} is not a multiple of {}; the nearest legal sizes are {}", name, value,
          given ? "" : " (the VAE's sample_size)", multiple, legal_sizes(value, multiple));
    return value;
  };
  request.width = size(request.width, "width");
  request.height = size(request.height, "height");
  check_allowed({*request.width, *request.height});
  check(request.n >= 1, ErrorCode::InvalidArgument, "n: {} is not positive", request.n);
  check(request.max_sequence_length >= 1 && request.max_sequence_length <= 512,
        ErrorCode::InvalidArgument, "max_sequence_length: {} is not in 1 ... 512",
        request.max_sequence_length);
  check_text(*tokenizer_, request.prompt, "prompt");
  check_text(*tokenizer_, request.negative_prompt.value_or(""), "negative prompt");
  (void)sampling::make_schedule(
      scheduler_, request.steps, std::nullopt,
      sampling::calculate_shift(latent_size(request).tokens(), scheduler_));
  return request;
}

void FluxPipeline::check_allowed(const PictureSize& size) const {
  std::vector<std::string> allowed;
  allowed.reserve(options_.sizes.size());
  for (const PictureSize& one : options_.sizes) {
    allowed.push_back(fmt::format("{}x{}", one.width, one.height));
  }
  check(allowed.empty() ||
            std::find(options_.sizes.begin(), options_.sizes.end(), size) != options_.sizes.end(),
        ErrorCode::InvalidArgument, "{}x{} is not among the sizes {}", size.width, size.height,
        fmt::join(allowed, ", "));
}

LatentSize FluxPipeline::latent_size(const GenerateRequest& request) const {
  return {.n = request.n,
          .channels = vae_.folder().as<autoencoders::KlDecoder>().config().latent_channels,
          .height = *request.height / vae_scale_,
          .width = *request.width / vae_scale_};
}

ProgramSize FluxPipeline::program_size(const GenerateRequest& request) const {
  const LatentSize latents = latent_size(request);
  return {.n = request.n,
          .latent_height = latents.height,
          .latent_width = latents.width,
          .clip_tokens = clip_length_,
          .t5_tokens = request.max_sequence_length};
}

std::vector<const Resident*> FluxPipeline::components() const {
  return {&text_encoder_, &text_encoder_2_, &transformer_, &vae_};
}

std::vector<models::ShapeMap> FluxPipeline::shapes(const Resident& component,
                                                   const GenerateRequest& request) const {
  std::vector<GenerateRequest> requests;
  for (const PictureSize& size : options_.sizes) {
    requests.push_back(request);
    requests.back().width = size.width;
    requests.back().height = size.height;
  }
  if (requests.empty()) {
    requests.push_back(request);
  }
  std::vector<models::ShapeMap> all;
  for (const GenerateRequest& one : requests) {
    models::ShapeMap map = flux_shapes(component.folder().model(), program_size(one));
    if (std::find(all.begin(), all.end(), map) == all.end()) {
      all.push_back(std::move(map));
    }
  }
  return all;
}

void FluxPipeline::prepare_components(const GenerateRequest& request) {
  const std::int64_t passes = request.uses_true_cfg() ? 2 : 1;
  for (Resident* r : {&text_encoder_, &text_encoder_2_, &transformer_, &vae_}) {
    const std::vector<models::ShapeMap> all = shapes(*r, request);
    const auto current =
        std::find(all.begin(), all.end(), flux_shapes(r->folder().model(), program_size(request)));
    require(current != all.end(), "a size that is not among the allowed ones");
    const std::int64_t runs = r == &transformer_ ? passes * request.steps
                              : r == &vae_       ? request.n
                                                 : passes;
    r->prepare(all, static_cast<std::size_t>(current - all.begin()), runs);
  }
}

std::size_t FluxPipeline::planned_bytes() const {
  return text_encoder_.planned_bytes() + text_encoder_2_.planned_bytes() +
         transformer_.planned_bytes() + vae_.planned_bytes();
}

std::size_t FluxPipeline::largest_stage() const {
  return std::max({text_encoder_.planned_bytes() + text_encoder_2_.planned_bytes(),
                   transformer_.planned_bytes(), vae_.planned_bytes()});
}

void FluxPipeline::refuse_memory(const GenerateRequest& request, std::size_t needed) {
  const std::size_t limit = options_.build.backend_options.memory_limit;
  std::string advice = "a smaller size needs less";
  if (request.n > 1) {
    // Activations grow with n; weights do not.
    GenerateRequest one = request;
    one.n = 1;
    prepare_components(one);
    const std::size_t base = largest_stage();
    const std::size_t each =
        (needed - std::min(needed, base)) / static_cast<std::size_t>(request.n - 1);
    if (base <= limit && each > 0) {
      advice = fmt::format("about {} pictures at once fit", 1 + (limit - base) / each);
    }
  }
  fail(ErrorCode::ResourceExhausted,
       "{} picture{} of {} x {} need{} {} of memory, {} are available; {}", request.n,
       request.n == 1 ? "" : "s", *request.width, *request.height, request.n == 1 ? "s" : "",
       readable_bytes(needed), readable_bytes(limit), advice);
}

std::vector<ComponentMemory> FluxPipeline::prepare(const GenerateRequest& request) {
  prepare_components(request);
  const std::size_t limit = options_.build.backend_options.memory_limit;
  keep_ = limit == 0 || planned_bytes() <= limit ? Keep::Loaded : Keep::OneAtATime;
  if (keep_ == Keep::OneAtATime && largest_stage() > limit) {
    refuse_memory(request, largest_stage());
  }
  std::vector<ComponentMemory> memory;
  for (const Resident* r : components()) {
    memory.push_back({r->name(), r->planned_bytes()});
  }
  return memory;
}

void FluxPipeline::load(Observer& observer) {
  if (keep_ == Keep::Loaded) {
    for (Resident* r : {&text_encoder_, &text_encoder_2_, &transformer_, &vae_}) {
      r->loaded(observer);
    }
  }
}

void FluxPipeline::after_stage(std::initializer_list<Resident*> used) {
  if (keep_ == Keep::OneAtATime) {
    for (Resident* r : used) {
      r->release();
    }
  }
}

void FluxPipeline::warn_dropped(std::string_view encoder, std::int64_t length,
                                const std::string& dropped) {
  constexpr std::size_t kShown = 300;  // bytes
  if (dropped.empty()) {
    return;
  }
  std::string shown = dropped;
  if (shown.size() > kShown) {
    std::size_t end = kShown;
    while (end > 0 && (static_cast<unsigned char>(shown[end]) & 0xc0U) == 0x80U) {
      --end;  // not within a character
    }
    const auto words =
        1 + std::count(shown.begin() + static_cast<std::ptrdiff_t>(end), shown.end(), ' ');
    shown = fmt::format("{}' and about {} more words", shown.substr(0, end), words);
  } else {
    shown += '\'';
  }
  context_->log.warn("{} reads {} tokens; it does not see '{}", encoder, length, shown);
}

TextEmbedding FluxPipeline::encode(const std::string& prompt, const std::string& prefix,
                                   const GenerateRequest& request, Observer& observer) {
  const auto& clip = text_encoder_.folder().as<encoders::ClipTextModel>().config();
  const auto& t5 = text_encoder_2_.folder().as<encoders::T5Encoder>().config();
  const text::Encoded words = tokenizer_->encode_padded(prompt, clip_length_);
  const text::Encoded words_2 = tokenizer_2_->encode_padded(prompt, request.max_sequence_length);
  warn_dropped("text_encoder (CLIP)", clip_length_, words.dropped);
  warn_dropped("text_encoder_2 (T5)", request.max_sequence_length, words_2.dropped);
  const HostTensor ids = ids_tensor(words.ids, clip.vocab_size, "text_encoder");
  const HostTensor ids_2 = ids_tensor(words_2.ids, t5.vocab_size, "text_encoder_2");
  observer.tensor(prefix + "input_ids", ids);
  observer.tensor(prefix + "input_ids_2", ids_2);
  TextEmbedding embedding{
      .tokens = text_encoder_2_.run({{"input_ids", ids_2}}, observer).at("last_hidden_state"),
      .pooled = text_encoder_.run({{"input_ids", ids}}, observer).at("pooler_output")};
  observer.tensor(prefix + "prompt_embeds", embedding.tokens);
  observer.tensor(prefix + "pooled_prompt_embeds", embedding.pooled);
  check_finite(embedding.tokens, "text_encoder_2: last_hidden_state");
  check_finite(embedding.pooled, "text_encoder: pooler_output");
  return embedding;
}

HostTensor FluxPipeline::denoise(const GenerateRequest& request, HostTensor latents,
                                 const TextEmbedding& positive,
                                 const std::optional<TextEmbedding>& negative, Observer& observer) {
  const DType dtype = options_.build.dtype;
  const LatentSize size = latent_size(request);
  const sampling::Schedule schedule =
      sampling::make_schedule(scheduler_, request.steps, sampling::linear_sigmas(request.steps),
                              sampling::calculate_shift(size.tokens(), scheduler_));
  compile::StagedExecutable& transformer = transformer_.loaded(observer);
  const compile::NamedTensors timesteps{{"timestep", timestep_rows(schedule, size.n, dtype)}};
  const auto begin = [&](const TextEmbedding& text) {
    compile::NamedTensors inputs{
        {"img_ids", image_positions(size, dtype)},
        {"txt_ids", HostTensor(DType::F32, {request.max_sequence_length, 3})},
        {"encoder_hidden_states", repeated(text.tokens, size.n)},
        {"pooled_projections", repeated(text.pooled, size.n)},
    };
    if (guidance_embeds_) {
      inputs["guidance"] = filled(DType::F32, size.n, static_cast<float>(request.guidance));
    }
    return Conditioning{.inputs = inputs, .request = transformer.begin(inputs, timesteps)};
  };
  Conditioning with = begin(positive);
  std::optional<Conditioning> without;
  if (negative) {
    without = begin(*negative);
  }
  for (std::size_t i = 0; i < schedule.timesteps.size(); ++i) {
    observer.check_stop();
    const Stopwatch watch;
    const auto step = static_cast<std::int64_t>(i);
    const auto predict = [&](Conditioning& text) {
      text.inputs["timestep"] = timesteps.at("timestep").narrow(0, step, 1).reshaped({size.n});
      text.inputs["hidden_states"] = latents;
      observer.component_inputs(transformer_.name(), text.inputs);
      return transformer.step(text.request, step, {{"hidden_states", latents}}).at("sample");
    };
    HostTensor velocity = predict(with);
    if (without) {
      velocity = sampling::true_cfg(velocity, predict(*without), request.true_cfg_scale);
    }
    latents = sampling::euler_step(schedule, i, velocity, latents);
    check_finite(latents, fmt::format("latents after step {} of {}", step + 1, request.steps));
    observer.tensor(fmt::format("latents.{}", step + 1), latents);
    observer.step(step + 1, request.steps, watch.seconds());
  }
  return latents;
}

std::vector<io::Image> FluxPipeline::decode(const GenerateRequest& request,
                                            const HostTensor& latents, Observer& observer) {
  const auto& config = vae_.folder().as<autoencoders::KlDecoder>().config();
  const HostTensor z = unscale_latents(unpack_latents(latents, latent_size(request)),
                                       config.scaling_factor, config.shift_factor);
  std::vector<io::Image> images;
  for (std::int64_t i = 0; i < request.n; ++i) {
    observer.check_stop();
    // One at a time: a picture's activations are many times its size.
    const HostTensor sample = vae_.run({{"z", z.narrow(0, i, 1)}}, observer).at("sample");
    observer.tensor(fmt::format("sample.{}", i), sample);
    check_finite(sample, fmt::format("decoded picture {} of {}", i + 1, request.n));
    images.push_back(std::move(to_images(sample).front()));
  }
  return images;
}

HostTensor FluxPipeline::latents(const GenerateRequest& request, Observer& observer) {
  prepare(request);
  text_encoder_.loaded(observer);
  text_encoder_2_.loaded(observer);
  std::optional<TextEmbedding> negative;
  const TextEmbedding positive = run_stage(observer, "encode", [&] {
    if (request.uses_true_cfg()) {
      negative = encode(*request.negative_prompt, "negative_", request, observer);
    }
    return encode(request.prompt, "", request, observer);
  });
  after_stage({&text_encoder_, &text_encoder_2_});

  HostTensor latents = initial_latents(latent_size(request), request.seed, options_.build.dtype);
  observer.tensor("initial_latents", latents);
  transformer_.loaded(observer);
  latents = run_stage(observer, "denoise",
                      [&] { return denoise(request, latents, positive, negative, observer); });
  after_stage({&transformer_});
  return latents;
}

std::vector<io::Image> FluxPipeline::generate(const GenerateRequest& request, Observer& observer) {
  const HostTensor denoised = latents(request, observer);
  vae_.loaded(observer);
  std::vector<io::Image> images =
      run_stage(observer, "decode", [&] { return decode(request, denoised, observer); });
  after_stage({&vae_});
  return images;
}

}  // namespace difflet::pipelines
