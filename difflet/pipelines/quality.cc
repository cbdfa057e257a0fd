#include "difflet/pipelines/quality.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/tensor/compare.h"

namespace difflet::pipelines {
namespace {

// Keeps the text and the latest latents of a request, and passes everything on.
class ResultKeeper final : public Observer {
 public:
  explicit ResultKeeper(Observer& next) : next_(&next) {}

  HostTensor text, latents;

  void stage_begin(std::string_view name) override { next_->stage_begin(name); }
  void stage_end(std::string_view name, double seconds) override {
    next_->stage_end(name, seconds);
  }
  void step(std::int64_t done, std::int64_t total, double seconds) override {
    next_->step(done, total, seconds);
  }
  void tensor(std::string_view name, const HostTensor& value) override {
    if (name == "prompt_embeds") {
      text = value;
    } else if (name.starts_with("latents.")) {
      latents = value;
    }
    next_->tensor(name, value);
  }
  void component_inputs(std::string_view component, const compile::NamedTensors& inputs) override {
    next_->component_inputs(component, inputs);
  }
  void check_stop() override { next_->check_stop(); }

 private:
  Observer* next_;
};

}  // namespace

RequestResult run_request(FluxPipeline& pipeline, const GenerateRequest& request,
                          Observer& observer) {
  ResultKeeper keeper(observer);
  RequestResult result;
  result.pictures = pipeline.generate(request, keeper);
  result.text = std::move(keeper.text);
  result.latents = std::move(keeper.latents);
  return result;
}

double picture_psnr(const io::Image& a, const io::Image& b) {
  check(a.width == b.width && a.height == b.height, ErrorCode::InvalidArgument,
        "cannot compare pictures of {} x {} and {} x {} pixels", a.width, a.height, b.width,
        b.height);
  double squares = 0;
  for (std::size_t i = 0; i < a.rgb.size(); ++i) {
    const double d = static_cast<double>(a.rgb[i]) - b.rgb[i];
    squares += d * d;
  }
  return squares == 0
             ? std::numeric_limits<double>::infinity()
             : 10 * std::log10(255.0 * 255.0 * static_cast<double>(a.rgb.size()) / squares);
}

Closeness closeness(const RequestResult& result, const RequestResult& reference) {
  require(result.pictures.size() == reference.pictures.size() && !result.pictures.empty(),
          "two results of different requests");
  Closeness c{.text_cosine = compare(result.text, reference.text).cosine,
              .latent_cosine = compare(result.latents, reference.latents).cosine,
              .psnr = 0};
  for (std::size_t i = 0; i < result.pictures.size(); ++i) {
    c.psnr += picture_psnr(result.pictures[i], reference.pictures[i]);
  }
  c.psnr /= static_cast<double>(result.pictures.size());
  return c;
}

ClosenessSummary summarize(std::span<const Closeness> all) {
  constexpr double kMostPsnr = 99;
  require(!all.empty(), "a summary of nothing");
  ClosenessSummary s{.mean = {.text_cosine = 0, .latent_cosine = 0, .psnr = 0}, .least = all[0]};
  const auto count = static_cast<double>(all.size());
  for (const Closeness& one : all) {
    s.mean.text_cosine += one.text_cosine / count;
    s.mean.latent_cosine += one.latent_cosine / count;
    s.mean.psnr += std::min(one.psnr, kMostPsnr) / count;
    s.least.text_cosine = std::min(s.least.text_cosine, one.text_cosine);
    s.least.latent_cosine = std::min(s.least.latent_cosine, one.latent_cosine);
    s.least.psnr = std::min(s.least.psnr, one.psnr);
  }
  return s;
}

}  // namespace difflet::pipelines
