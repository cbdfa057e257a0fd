// config.json of FluxTransformer2DModel; defaults are those of the class.
#pragma once

#include <cstdint>
#include <vector>

#include "difflet/models/common/config_reader.h"

namespace difflet::flux {

struct Config {
  std::int64_t patch_size = 1;
  std::int64_t in_channels = 64;
  std::int64_t out_channels = 64;  // null in the file: in_channels
  std::int64_t num_layers = 19;
  std::int64_t num_single_layers = 38;
  std::int64_t attention_head_dim = 128;
  std::int64_t num_attention_heads = 24;
  std::int64_t joint_attention_dim = 4096;  // width of the text embedding
  std::int64_t pooled_projection_dim = 768;
  bool guidance_embeds = false;
  std::vector<std::int64_t> axes_dims_rope{16, 56, 56};

  std::int64_t width() const { return num_attention_heads * attention_head_dim; }
};

// Throws InvalidArgument or Unsupported, naming the field.
Config read_config(models::ConfigReader& reader);

}  // namespace difflet::flux
