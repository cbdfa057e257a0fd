// AutoencoderKL: the picture decoder of FLUX.
#pragma once

#include "difflet/models/common/component.h"
#include "difflet/models/common/config_reader.h"

namespace difflet::autoencoders {

struct KlConfig {
  std::int64_t out_channels = 3;
  std::int64_t latent_channels = 4;
  std::vector<std::int64_t> block_out_channels{64};
  std::int64_t layers_per_block = 1;
  std::int64_t norm_num_groups = 32;
  std::int64_t sample_size = 32;  // pixels
  double scaling_factor = 0.18215;
  double shift_factor = 0;
  bool use_post_quant_conv = true;
  bool mid_block_add_attention = true;

  // Pixels a latent cell.
  std::int64_t scale() const { return std::int64_t{1} << (block_out_channels.size() - 1); }
};

KlConfig read_kl_config(models::ConfigReader& reader);

// Input: z [B, latent_channels, h, w]. Output: sample [B, out_channels, h * scale, w * scale].
class KlDecoder : public models::Component {
 public:
  explicit KlDecoder(KlConfig config) : config_(std::move(config)) {}
  graph::Graph trace(const models::ShapeMap& inputs, DType dtype,
                     const spmd::Mesh& mesh) const override;
  bool makes_picture() const override { return true; }
  bool ignores(std::string_view tensor) const override;
  const KlConfig& config() const { return config_; }

 private:
  KlConfig config_;
};

}  // namespace difflet::autoencoders
