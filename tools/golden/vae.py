"""AutoencoderKL, decoding: one to four levels, with and without attention and 1x1 convolutions."""

import torch
from diffusers import AutoencoderKL
from safetensors.torch import load_file, save_file

from tools.golden.common import F32, case_dir, draw, fill, record

LEGACY = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}


def make_all():
    make("flux4", dict(block_out_channels=(8, 8, 16, 16), layers_per_block=2, latent_channels=16,
                       norm_num_groups=4, use_quant_conv=False, use_post_quant_conv=False,
                       scaling_factor=0.3611, shift_factor=0.1159), batch=1, height=3, width=4,
         hooks=["decoder.conv_in", "decoder.mid_block", "decoder.conv_norm_out"]
         + [f"decoder.up_blocks.{i}" for i in range(4)])
    make("one_level_quant", dict(block_out_channels=(4,), layers_per_block=1, latent_channels=3,
                                 norm_num_groups=1), batch=2, height=6, width=5)
    make("two_levels_plain", dict(block_out_channels=(12, 24), layers_per_block=1,
                                  latent_channels=4, norm_num_groups=3, use_quant_conv=False,
                                  use_post_quant_conv=False, mid_block_add_attention=False),
         batch=1, height=4, width=7)
    make("three_levels_legacy", dict(block_out_channels=(6, 12, 18), layers_per_block=2,
                                     latent_channels=4, norm_num_groups=3),
         batch=1, height=5, width=3, legacy_names=True)
    make("two_levels_f16", dict(block_out_channels=(16, 32), layers_per_block=1, latent_channels=8,
                                norm_num_groups=8, use_quant_conv=False, use_post_quant_conv=False,
                                scaling_factor=1.5, shift_factor=-0.25), batch=2, height=4, width=6,
         store=torch.float16)


def vae_config(levels):
    return dict(down_block_types=("DownEncoderBlock2D",) * levels,
                up_block_types=("UpDecoderBlock2D",) * levels)


def make(name, config, *, batch, height, width, store=F32, legacy_names=False, hooks=()):
    path = case_dir("autoencoder_kl", name)
    model = AutoencoderKL(**vae_config(len(config["block_out_channels"])), **config)
    model = fill(model, f"vae-{name}", [(r"decoder\.conv_out\.weight", 0.6)]).to(store)
    model.save_pretrained(path)
    if legacy_names:
        file = path / "diffusion_pytorch_model.safetensors"
        tensors = {rename(k): v for k, v in load_file(file).items()}
        save_file(tensors, file, metadata={"format": "pt"})

    def load():
        return AutoencoderKL.from_pretrained(path, dtype=F32)

    reloaded = load().state_dict()
    assert all(torch.equal(v.to(F32), reloaded[k]) for k, v in model.state_dict().items())

    def call(model, inputs):
        return {"sample": model.decode(inputs["z"]).sample}

    z = draw((batch, config["latent_channels"], height, width), f"vae-{name}", "z")
    record(path, load, call, {"z": z}, {"class": "AutoencoderKL", "stored": str(store)[6:],
                                        "variant": None}, hooks)


def rename(name):
    for new, old in LEGACY.items():
        name = name.replace(f"attentions.0.{new}.", f"attentions.0.{old}.")
    return name
