// How close what one pipeline makes is to what another makes of the same requests.
#pragma once

#include <span>
#include <vector>

#include "difflet/io/image.h"
#include "difflet/pipelines/flux_pipeline.h"

namespace difflet::pipelines {

struct RequestResult {
  HostTensor text;     // T5's tokens, [1, T, D]
  HostTensor latents;  // after the last step, packed: [n, I, C]
  std::vector<io::Image> pictures;
};

// Runs a resolved request.
RequestResult run_request(FluxPipeline& pipeline, const GenerateRequest& request,
                          Observer& observer);

// dB against 255, over all pixels and colours; infinite for equal pictures. Throws InvalidArgument for
// pictures of different sizes.
double picture_psnr(const io::Image& a, const io::Image& b);

// Of one request.
struct Closeness {
  double text_cosine = 1, latent_cosine = 1;
  double psnr = 0;  // of its pictures, the mean
};
Closeness closeness(const RequestResult& result, const RequestResult& reference);

// Of all requests.
struct ClosenessSummary {
  Closeness mean,
      least;  // each number by itself; a PSNR of more than 99 dB counts as 99 in the mean
};
ClosenessSummary summarize(std::span<const Closeness> all);

}  // namespace difflet::pipelines
