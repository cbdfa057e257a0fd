#include "difflet/cli/verify_quant.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/cli/command.h"
#include "difflet/cli/hub_options.h"
#include "difflet/cli/interrupt.h"
#include "difflet/cli/progress.h"
#include "difflet/cli/targets.h"
#include "difflet/compile/verify.h"
#include "difflet/pipelines/input_recorder.h"
#include "difflet/pipelines/judge.h"
#include "difflet/pipelines/model_index.h"
#include "difflet/pipelines/quality.h"

namespace difflet::cli {
namespace {

namespace fs = std::filesystem;
using pipelines::FluxPipeline;
using pipelines::GenerateRequest;
using pipelines::Judge;
using pipelines::RequestResult;

constexpr std::array<std::string_view, 2> kPrompts{"a red apple",
                                                   "a lighthouse on a cliff at dusk, oil painting"};
constexpr std::int64_t kSampledRequests = 2;  // whose activations layers are measured on
constexpr std::int64_t kSampledSteps = 4;     // of each
constexpr std::int64_t kLostHits = 2;         // that are not yet worse

constexpr std::array<std::string_view, 8> kOwnOptions{
    "prompt", "steps", "guidance", "seed", "judge", "judge-count", "least-psnr", "least-cosine"};

void check_combination(const OptionValues& options) {
  const auto together = [&](std::string_view a, std::string_view b, std::string_view why) {
    check(!options.given(a) || !options.given(b), ErrorCode::InvalidArgument,
          "--{} and --{} exclude each other: {}", a, b, why);
  };
  together("quant", "quantized", "a folder of int8 weights has its own mode");
  together("quant-groups", "quantized", "a folder of int8 weights has its own layers");
  together("judge", "prompt", "a judge asks its own questions");
  for (const char* alone : {"component", "inputs"}) {
    for (const char* whole : {"prompt", "judge"}) {
      together(alone, whole, "one component makes no picture");
    }
  }
  check(options.given("judge") || !options.given("judge-count"), ErrorCode::InvalidArgument,
        "--judge-count counts only with --judge");
  check(!options.given("tolerance"), ErrorCode::InvalidArgument,
        "--tolerance is for a backend against the reference; int8 weights have --least-psnr and "
        "--least-cosine");
  check(!options.given("quant") || options.text("quant") != "none", ErrorCode::InvalidArgument,
        "--quant none leaves nothing to verify; w8a16 and w8a8 do");
}

// Plain options are for --model with float weights, the others for what is verified.
pipelines::PipelineOptions plain_options(const OptionValues& options) {
  pipelines::PipelineOptions plain = pipeline_options(options);
  plain.build.quant = {};
  return plain;
}

fs::path quantised_folder(const OptionValues& options) {
  return model_folder(options, options.given("quantized") ? "quantized" : "model");
}

void check_forms(const OptionValues& options, std::string_view name,
                 const compile::ComponentFolder& plain, const compile::ComponentFolder& quantised) {
  check(
      !plain.quant().stored, ErrorCode::InvalidArgument,
      "{}: {} has int8 weights already; give the folder that it was made of with --model and this "
      "one with --quantized",
      options.text("model"), name);
  check(plain.class_name() == quantised.class_name(), ErrorCode::InvalidArgument,
        "{} is a {} in --model and a {} in --quantized", name, plain.class_name(),
        quantised.class_name());
}

// A picture's line, and only that, on standard error.
class Progress final : public pipelines::Observer {
 public:
  explicit Progress(bool shown) : shown_(shown) {}
  void tell(const std::string& text) const {
    if (shown_) {
      print_message(text);
    }
  }
  void check_stop() override { cli::check_stop(); }

 private:
  bool shown_;
};

// The whole way from prompts to pictures, in both forms.
class PipelineCheck {
 public:
  PipelineCheck(const OptionValues& options, Context& context)
      : options_(&options),
        context_(&context),
        progress_(!options.flag("quiet") && !options.flag("json")) {
    if (options.given("judge")) {
      judge_ = Judge::open(options.text("judge"));
    }
    quantised_ = std::make_unique<FluxPipeline>(quantised_folder(options),
                                                pipeline_options(options), context);
    plain_ = open_plain();
    make_requests();
    make_pairs();
  }

  void run();

 private:
  std::unique_ptr<FluxPipeline> open_plain() const {
    return std::make_unique<FluxPipeline>(model_folder(*options_), plain_options(*options_),
                                          *context_);
  }
  void make_requests();
  void add_request(const std::string& prompt, std::uint64_t seed);
  void make_pairs();
  std::vector<RequestResult> generate(FluxPipeline& pipeline, std::string_view what,
                                      pipelines::InputRecorder* recorder);
  void print_picture(std::size_t index, const pipelines::Closeness& c,
                     const RequestResult& quantised) const;
  std::int64_t hits(const std::vector<RequestResult>& results) const;
  void finish(const std::vector<RequestResult>& plain, const std::vector<RequestResult>& quantised,
              const LayersFound& found) const;

  const OptionValues* options_;
  Context* context_;
  Progress progress_;
  std::optional<Judge> judge_;
  std::unique_ptr<FluxPipeline> quantised_, plain_;
  std::vector<GenerateRequest> requests_;  // resolved
  std::vector<QuantPair> pairs_;           // components with int8 layers
};

void PipelineCheck::add_request(const std::string& prompt, std::uint64_t seed) {
  const OptionValues& options = *options_;
  requests_.push_back(quantised_->resolved(
      {.prompt = prompt,
       .negative_prompt = {},
       .width = options.optional_integer("width"),
       .height = options.optional_integer("height"),
       .n = options.integer("n"),
       .steps = options.optional_integer("steps").value_or(judge_ ? judge_->steps() : 28),
       .guidance = options.number("guidance"),
       .seed = seed,
       .max_sequence_length = options.integer("max-sequence-length")}));
}

void PipelineCheck::make_requests() {
  const std::uint64_t seed = options_->seed("seed");
  if (judge_) {
    const auto count = static_cast<std::size_t>(options_->integer("judge-count"));
    check(!options_->given("judge-count") || count <= judge_->questions().size(),
          ErrorCode::InvalidArgument, "--judge-count: the judge has {} questions",
          judge_->questions().size());
    for (std::size_t i = 0; i < std::min(count, judge_->questions().size()); ++i) {
      const Judge::Question& question = judge_->questions()[i];
      add_request(question.prompt, question.seed + seed);
    }
  } else if (options_->given("prompt")) {
    add_request(options_->text("prompt"), seed);
  } else {
    for (const std::string_view prompt : kPrompts) {
      add_request(std::string(prompt), seed);
    }
  }
}

void PipelineCheck::make_pairs() {
  pairs_.clear();
  const std::vector<const pipelines::Resident*> plain = plain_->components();
  const std::vector<const pipelines::Resident*> quantised = quantised_->components();
  for (std::size_t i = 0; i < quantised.size(); ++i) {
    const compile::ComponentFolder& folder = quantised[i]->folder();
    check_forms(*options_, plain[i]->name(), plain[i]->folder(), folder);
    if (!folder.quant().plan().empty()) {
      pairs_.push_back({.name = quantised[i]->name(),
                        .plain = &plain[i]->folder(),
                        .quantised = &folder,
                        .shapes = plain_->shapes(*plain[i], requests_.front()).front()});
    }
  }
  check(!pairs_.empty(), ErrorCode::InvalidArgument, "{}: no layer has int8 weights",
        quantised_folder(*options_).string());
}

std::vector<RequestResult> PipelineCheck::generate(FluxPipeline& pipeline, std::string_view what,
                                                   pipelines::InputRecorder* recorder) {
  std::vector<RequestResult> results;
  pipelines::Observer& observer =
      recorder == nullptr ? static_cast<pipelines::Observer&>(progress_) : *recorder;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (recorder != nullptr) {
      recorder->begin_request(i < kSampledRequests);
    }
    results.push_back(pipelines::run_request(pipeline, requests_[i], observer));
    progress_.tell(fmt::format("{}: {} of {}\n", what, i + 1, requests_.size()));
  }
  return results;
}

std::int64_t PipelineCheck::hits(const std::vector<RequestResult>& results) const {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::size_t found = judge_->nearest(results[i].pictures.front());
    count += found == judge_->questions()[i].picture ? 1 : 0;
  }
  return count;
}

void PipelineCheck::print_picture(std::size_t index, const pipelines::Closeness& c,
                                  const RequestResult& quantised) const {
  const GenerateRequest& request = requests_[index];
  std::string looks_like;
  if (judge_) {
    const std::size_t found = judge_->nearest(quantised.pictures.front());
    looks_like = found == judge_->questions()[index].picture ? "" : judge_->name(found);
  }
  if (options_->flag("json")) {
    Json event{{"event", "picture"},
               {"prompt", request.prompt},
               {"seed", request.seed},
               {"psnr", std::isinf(c.psnr) ? Json() : Json(c.psnr)},
               {"latent_cosine", c.latent_cosine},
               {"text_cosine", c.text_cosine}};
    if (judge_) {
      event["hit"] = looks_like.empty();
    }
    print_event(event);
    return;
  }
  print(fmt::format("picture {:.1f} dB, latents' cosine {:.6f}, text's {:.6f}: '{}', seed {}{}\n",
                    c.psnr, c.latent_cosine, c.text_cosine, request.prompt, request.seed,
                    looks_like.empty() ? "" : fmt::format("; looks like '{}'", looks_like)));
}

void PipelineCheck::run() {
  std::set<std::string, std::less<>> names;
  for (const QuantPair& pair : pairs_) {
    names.insert(pair.name);
  }
  pipelines::InputRecorder recorder(names, requests_.front().steps, kSampledSteps, progress_);
  const std::string dtype = options_->text("dtype");
  const std::vector<RequestResult> plain = generate(*plain_, dtype, &recorder);
  // Only one form of the model is in memory at a time; opened again it holds no weight.
  plain_ = open_plain();
  make_pairs();
  LayersFound found;
  for (const QuantPair& pair : pairs_) {
    const LayersFound one = print_layers(*options_, pair, recorder.inputs().at(pair.name),
                                         build_options(*options_), *context_);
    found.layers += one.layers;
    found.over_bound += one.over_bound;
  }
  const std::vector<RequestResult> quantised = generate(*quantised_, "int8", nullptr);
  finish(plain, quantised, found);
}

void PipelineCheck::finish(const std::vector<RequestResult>& plain,
                           const std::vector<RequestResult>& quantised,
                           const LayersFound& found) const {
  std::vector<pipelines::Closeness> all;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    all.push_back(pipelines::closeness(quantised[i], plain[i]));
    print_picture(i, all.back(), quantised[i]);
  }
  const pipelines::ClosenessSummary s = pipelines::summarize(all);
  const std::int64_t before = judge_ ? hits(plain) : 0;
  const std::int64_t after = judge_ ? hits(quantised) : 0;
  const double bound = least_psnr(*options_, coarsest_mode(pairs_));
  if (options_->flag("json")) {
    Json event{{"event", "result"},
               {"layers", found.layers},
               {"over_bound", found.over_bound},
               {"pictures", all.size()},
               {"psnr", s.mean.psnr},
               {"least_psnr", std::isinf(s.least.psnr) ? Json() : Json(s.least.psnr)},
               {"latent_cosine", s.mean.latent_cosine},
               {"least_latent_cosine", s.least.latent_cosine},
               {"text_cosine", s.mean.text_cosine},
               {"least_text_cosine", s.least.text_cosine}};
    if (judge_) {
      event["hits"] = after;
      event["hits_without"] = before;
    }
    print_event(event);
  } else {
    const std::string judged = judge_ ? fmt::format("; hits {} of {}, {} of {} without int8", after,
                                                    all.size(), before, all.size())
                                      : "";
    print(
        fmt::format("{} int8 layers, {} over their bound; {} picture{}: mean {:.1f} dB, least "
                    "{:.1f} dB; latents' cosine {:.6f}, least {:.6f}; text's {:.6f}, least "
                    "{:.6f}{}\n",
                    found.layers, found.over_bound, all.size(), all.size() == 1 ? "" : "s",
                    s.mean.psnr, s.least.psnr, s.mean.latent_cosine, s.least.latent_cosine,
                    s.mean.text_cosine, s.least.text_cosine, judged));
  }
  check(s.mean.psnr >= bound, ErrorCode::DataLoss,
        "with int8 weights the pictures are at {:.1f} dB of those without; {} are asked for",
        s.mean.psnr, bound);
  check(!judge_ || after >= before - kLostHits, ErrorCode::DataLoss,
        "with int8 weights {} of {} pictures are what they were asked to be, without {}", after,
        all.size(), before);
}

// One component on given inputs or noise.
void check_component(const OptionValues& options, Context& context) {
  const Targets targets(options, context);
  std::optional<compile::ComponentFolder> other;
  const Target& target = targets.all().front();
  require(targets.all().size() == 1, "a component that is several");
  if (options.given("quantized")) {
    const auto place =
        pipelines::find_component(quantised_folder(options), options.text("component"));
    other = compile::ComponentFolder::open(place.folder, place.class_name, options.text("variant"),
                                           context.log);
  }
  const QuantPair pair{.name = target.name,
                       .plain = target.folder,
                       .quantised = other ? &*other : target.folder,
                       .shapes = target.shapes.front()};
  check_forms(options, pair.name, *pair.plain, *pair.quantised);
  check(!pair.quantised->quant().plan().empty(), ErrorCode::InvalidArgument,
        "{}: no layer has int8 weights", pair.quantised->path().string());
  const compile::BuildOptions build = build_options(options);
  const compile::NamedTensors sample =
      options.given("inputs")
          ? read_inputs(options.text("inputs"))
          : compile::noise_inputs(pair.plain->trace_float(pair.shapes, build.dtype));
  const LayersFound found = print_layers(options, pair, std::span(&sample, 1), build, context);
  const double cosine = print_outputs(options, pair, sample, build, context);
  const double bound = least_cosine(options, coarsest_mode(std::span(&pair, 1)));
  if (options.flag("json")) {
    print_event({{"event", "result"},
                 {"component", pair.name},
                 {"layers", found.layers},
                 {"over_bound", found.over_bound},
                 {"cosine", cosine}});
  } else {
    print(fmt::format("{}: {} int8 layers, {} over their bound; cosine of the results {:.7f}\n",
                      pair.name, found.layers, found.over_bound, cosine));
  }
  // NaN is no cosine either.
  check(cosine >= bound, ErrorCode::DataLoss,
        "{}: with int8 weights the results' cosine is {:.7f}; {} is asked for", pair.name, cosine,
        bound);
}

}  // namespace

bool verifies_quant(const OptionValues& options) {
  if (options.given("quant") || options.given("quant-groups") || options.given("quantized")) {
    return true;
  }
  for (const std::string_view own : kOwnOptions) {
    check(!options.given(own), ErrorCode::InvalidArgument,
          "--{} counts only with --quant or --quantized", own);
  }
  return false;
}

void run_verify_quant(const OptionValues& options) {
  check_combination(options);
  Log log(log_level(options));
  ThreadPool threads(static_cast<int>(options.integer("threads")));
  Context context{.log = log, .threads = threads};
  if (options.given("component") || options.given("inputs")) {
    check_component(options, context);
  } else {
    PipelineCheck(options, context).run();
  }
}

}  // namespace difflet::cli
