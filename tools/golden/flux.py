"""FluxTransformer2DModel: block counts, head sizes, rotary splits, guidance, odd channel counts."""

import torch
from diffusers import FluxTransformer2DModel

from tools.golden.common import BF16, F32, case_dir, draw, fill, record

# The default drawing leaves the gates and attention outputs so small that the text path hardly
# counts. With these factors, 10 % more on any one tensor moves the output by 1e-4 or more.
GAINS = [
    (r"_embedder\.linear_1\.weight", 0.7),
    (r"norm1.*linear\.weight|norm\.linear\.weight", 2.5),
    (r"context_embedder|to_v|add_v_proj", 1.5),
    (r"to_out|to_add_out|ff.*net\.2|proj_mlp", 1.5),
    (r"single.*proj_out", 1.5),
]


def make_all():
    # The configuration of the diffusers unit tests.
    make("tiny", dict(in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16,
                      num_attention_heads=2, joint_attention_dim=32, pooled_projection_dim=32,
                      axes_dims_rope=(4, 4, 8), guidance_embeds=False),
         batch=1, height=4, width=4, text=12, timestep=[1.0])
    make("guidance", dict(in_channels=16, num_layers=2, num_single_layers=1, attention_head_dim=16,
                          num_attention_heads=2, joint_attention_dim=24, pooled_projection_dim=20,
                          axes_dims_rope=(2, 6, 8), guidance_embeds=True),
         batch=2, height=3, width=5, text=7, timestep=[0.5, 0.5], guidance=[4.0, 4.0], hooks=True)
    make("one_head", dict(in_channels=12, out_channels=8, num_layers=1, num_single_layers=3,
                          attention_head_dim=32, num_attention_heads=1, joint_attention_dim=40,
                          pooled_projection_dim=16, axes_dims_rope=(8, 12, 12),
                          guidance_embeds=True),
         batch=1, height=6, width=2, text=9, timestep=[0.5], guidance=[1.0])
    make("no_double_f16", dict(in_channels=8, num_layers=0, num_single_layers=2,
                               attention_head_dim=16, num_attention_heads=3, joint_attention_dim=16,
                               pooled_projection_dim=24, axes_dims_rope=(4, 6, 6),
                               guidance_embeds=False),
         batch=2, height=2, width=7, text=5, timestep=[0.25, 0.125], store=torch.float16,
         variant="fp16")
    # bf16 holds neither 0.7512 nor 3.5 * 1000 (it becomes 3504): what the bf16 run computes depends
    # on where these are rounded.
    make("rounding_bf16", dict(in_channels=4, num_layers=1, num_single_layers=1,
                               attention_head_dim=16, num_attention_heads=1, joint_attention_dim=8,
                               pooled_projection_dim=8, axes_dims_rope=(4, 4, 8),
                               guidance_embeds=True),
         batch=1, height=3, width=3, text=4, timestep=[0.7512], guidance=[3.5], store=BF16)
    # Text positions other than zero, image positions with a first axis: nothing may assume zeros.
    make("no_single_sharded", dict(in_channels=16, num_layers=2, num_single_layers=0,
                                   attention_head_dim=16, num_attention_heads=2,
                                   joint_attention_dim=32, pooled_projection_dim=32,
                                   axes_dims_rope=(4, 4, 8), guidance_embeds=True),
         batch=1, height=4, width=3, text=6, timestep=[0.25], guidance=[1.0], store=BF16,
         shard="100KB", all_axes=True)


def image_ids(height, width):
    ids = torch.zeros(height, width, 3)
    ids[..., 1] += torch.arange(height)[:, None]
    ids[..., 2] += torch.arange(width)[None]
    return ids.reshape(-1, 3)


def make(name, config, *, batch, height, width, text, timestep, guidance=None, store=F32,
         variant=None, shard="5GB", hooks=False, all_axes=False):
    path = case_dir("flux_transformer", name)
    key = f"flux-{name}"
    model = fill(FluxTransformer2DModel(**config), key, GAINS).to(store)
    model.save_pretrained(path, variant=variant, max_shard_size=shard)

    inputs = {
        "hidden_states": draw((batch, height * width, config["in_channels"]), key, "hidden"),
        "encoder_hidden_states": draw((batch, text, config["joint_attention_dim"]), key, "text"),
        "pooled_projections": draw((batch, config["pooled_projection_dim"]), key, "pooled"),
        "timestep": torch.tensor(timestep),
        "img_ids": image_ids(height, width),
        "txt_ids": torch.zeros(text, 3),
    }
    if guidance:
        inputs["guidance"] = torch.tensor(guidance)
    if all_axes:
        inputs["img_ids"][:, 0] += 2
        inputs["txt_ids"][:, 0] += torch.arange(text)
        inputs["txt_ids"][:, 2] += 3

    def load():
        return FluxTransformer2DModel.from_pretrained(path, dtype=F32, variant=variant)

    reloaded = load().state_dict()
    assert all(torch.equal(v.to(F32), reloaded[k]) for k, v in model.state_dict().items())

    def call(model, inputs):
        return {"sample": model(**inputs).sample}

    modules = []
    if hooks:
        modules = ["x_embedder", "context_embedder", "time_text_embed", "pos_embed"]
        modules += [f"transformer_blocks.{i}" for i in range(config["num_layers"])]
        modules += [f"single_transformer_blocks.{i}" for i in range(config["num_single_layers"])]
        modules += ["norm_out"]
    record(path, load, call, inputs, {"class": "FluxTransformer2DModel", "stored": str(store)[6:],
                                      "variant": variant}, modules)
