#include "difflet/models/flux/config.h"

#include <numeric>

#include "difflet/base/error.h"

namespace difflet::flux {

Config read_config(models::ConfigReader& r) {
  Config c;
  c.patch_size = r.integer("patch_size", c.patch_size);
  if (c.patch_size != 1) {
    r.refuse("patch_size", "only 1 (the pipeline packs latents 2 x 2 itself)");
  }
  c.in_channels = r.integer("in_channels", c.in_channels);
  c.out_channels = r.optional_integer("out_channels").value_or(c.in_channels);
  c.num_layers = r.integer("num_layers", c.num_layers, {0, 1000});
  c.num_single_layers = r.integer("num_single_layers", c.num_single_layers, {0, 1000});
  c.attention_head_dim = r.integer("attention_head_dim", c.attention_head_dim, {1, 4096});
  c.num_attention_heads = r.integer("num_attention_heads", c.num_attention_heads, {1, 4096});
  c.joint_attention_dim = r.integer("joint_attention_dim", c.joint_attention_dim);
  c.pooled_projection_dim = r.integer("pooled_projection_dim", c.pooled_projection_dim);
  c.guidance_embeds = r.flag("guidance_embeds", c.guidance_embeds);
  c.axes_dims_rope = r.integers("axes_dims_rope", c.axes_dims_rope, {2, 4096});
  const std::int64_t sum =
      std::accumulate(c.axes_dims_rope.begin(), c.axes_dims_rope.end(), std::int64_t{0});
  check(sum == c.attention_head_dim, ErrorCode::InvalidArgument,
        "{}: axes_dims_rope sums to {}, attention_head_dim is {}", r.origin(), sum,
        c.attention_head_dim);
  for (const std::int64_t d : c.axes_dims_rope) {
    check(d % 2 == 0, ErrorCode::InvalidArgument, "{}: axes_dims_rope holds {}, which is odd",
          r.origin(), d);
  }
  return c;
}

}  // namespace difflet::flux
