"""Whole FluxPipelines with random weights: pictures in f32 and bf16, and what lies in between."""

import math
import re

import numpy as np
import torch
from diffusers import (AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline,
                       FluxTransformer2DModel)
from PIL import Image
from safetensors.torch import load_file
from transformers import CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel

from tools.golden import clip, flux, t5, tiny_tokenizers
from tools.golden.common import BF16, F32, case_dir, fill, write_json, write_tensors
from tools.golden.vae import vae_config

CASES = {
    # FLUX.1-dev's shape: guidance embedding, dynamic shift, eight pixels a latent, 512 text tokens.
    "dev": dict(
        transformer=dict(in_channels=16, num_layers=2, num_single_layers=2, guidance_embeds=True),
        vae=dict(block_out_channels=(4, 8, 8, 8), layers_per_block=2, norm_num_groups=4,
                 scaling_factor=0.3611, shift_factor=0.1159),
        scheduler=dict(use_dynamic_shifting=True, shift=3.0), legacy_eos=True, old_files=True,
        call=dict(prompt="A painting of a squirrel eating a burger", num_inference_steps=8,
                  guidance_scale=3.5, seed=0, width=128, height=96)),
    # schnell's: no guidance embedding, no shift, few steps; two pictures from one generator.
    "schnell": dict(
        transformer=dict(in_channels=8, num_layers=1, num_single_layers=2, guidance_embeds=False),
        vae=dict(block_out_channels=(8, 12), layers_per_block=1, norm_num_groups=4,
                 scaling_factor=0.6, shift_factor=-0.2),
        scheduler=dict(shift=1.0), legacy_eos=False,
        call=dict(prompt="Three cats sleeping on a sofa; 35mm, a caf\u00e9 & a Moon", seed=12345,
                  num_inference_steps=4, width=40, height=64, num_images_per_prompt=2,
                  max_sequence_length=256)),
    # True guidance with a negative prompt, static shift, quant convolutions, an odd text length.
    # 756 latents are no multiple of 16: the bf16 noise differs from f32 noise at its end.
    "true_cfg": dict(
        transformer=dict(in_channels=12, num_layers=2, num_single_layers=1, guidance_embeds=True),
        vae=dict(block_out_channels=(6, 6, 12), layers_per_block=1, norm_num_groups=3,
                 use_quant_conv=True, use_post_quant_conv=True, scaling_factor=1.0,
                 shift_factor=0.05),
        scheduler=dict(shift=3.0), legacy_eos=False,
        call=dict(prompt="An old lighthouse above the sea at sunset, with storm clouds behind it",
                  negative_prompt="blurry, low quality", true_cfg_scale=2.5, guidance_scale=2.0,
                  num_inference_steps=6, seed=7, width=72, height=56, max_sequence_length=77)),
}
# The class defaults of FluxPipeline.__call__, written out so that a test need not know them.
DEFAULTS = dict(negative_prompt=None, true_cfg_scale=1.0, num_inference_steps=28,
                guidance_scale=3.5, num_images_per_prompt=1, max_sequence_length=512)


def make_all():
    for name, case in CASES.items():
        path = case_dir("pipelines", name)
        pipe, sentencepiece_model = build(name, case)
        call = {**DEFAULTS, **case["call"]}
        calibrate(pipe, call)
        save(pipe, path / "model", sentencepiece_model if case.get("old_files") else None)
        result = run_all(path, path / "model", call)
        write_json(path / "case.json", {**call, **result})
        size = sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
        print(f"pipelines/{name}: {size // 1024} KiB, {result}")
        check(path, call)
        assert result["bf16_psnr"]["same_noise"] > 36


def build(name, case):
    key = f"pipeline-{name}"
    clip_tokenizer = tiny_tokenizers.clip(merge_count=150)
    t5_tokenizer, sentencepiece_model = tiny_tokenizers.t5(size=160, extra_ids=10)
    end = clip_tokenizer.eos_token_id
    text_encoder = CLIPTextModel(CLIPTextConfig(
        vocab_size=len(clip_tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=77, projection_dim=32, bos_token_id=end - 1,
        eos_token_id=2 if case["legacy_eos"] else end, pad_token_id=1))
    text_encoder_2 = T5EncoderModel(T5Config(
        vocab_size=176, d_model=24, d_kv=8, num_heads=4, d_ff=48, num_layers=2,
        feed_forward_proj="gated-gelu"))
    transformer = FluxTransformer2DModel(
        attention_head_dim=16, num_attention_heads=2, joint_attention_dim=24,
        axes_dims_rope=(4, 6, 6), pooled_projection_dim=32, **case["transformer"])
    vae = {"use_quant_conv": False, "use_post_quant_conv": False, **case["vae"],
           "latent_channels": case["transformer"]["in_channels"] // 4}
    vae = AutoencoderKL(**vae_config(len(vae["block_out_channels"])), **vae)
    fill(text_encoder, f"{key}-clip", clip.GAINS)
    fill(text_encoder_2, f"{key}-t5", [(r"SelfAttention\.q\.", 8 ** -0.5)])
    fill(transformer, f"{key}-flux", flux.GAINS)
    soften(transformer)
    fill(vae, f"{key}-vae")
    pipe = FluxPipeline(scheduler=FlowMatchEulerDiscreteScheduler(**case["scheduler"]), vae=vae,
                        text_encoder=text_encoder, tokenizer=clip_tokenizer,
                        text_encoder_2=text_encoder_2, tokenizer_2=t5_tokenizer,
                        transformer=transformer)
    return pipe, sentencepiece_model


def soften(transformer):
    """Weakens the fast sinusoids of time and guidance, as training does.

    bf16 holds t to 1 part in 256 (750 becomes 752), which turns the fast ones by whole radians;
    with plain random weights the bf16 picture would have nothing to do with the f32 one.
    """
    frequency = torch.exp(-math.log(10000) * torch.arange(128) / 128)
    weight = 1 / (1 + (25 * frequency) ** 2)
    for name, p in transformer.named_parameters():
        if re.search(r"(timestep|guidance)_embedder\.linear_1\.weight", name):
            p.mul_(torch.cat([weight, weight]) * 2)


def calibrate(pipe, call):
    """Scales the last convolution so that the picture spans the range without clipping."""
    result = generate(pipe, call)
    sample = result["sample"]
    scale = 0.35 / sample.std()
    conv = pipe.vae.decoder.conv_out
    mean = sample.mean(dim=(0, 2, 3))
    conv.bias.sub_(mean).mul_(scale)
    conv.weight.mul_(scale)


def generate(pipe, call, latents=None):
    """One call of the pipeline; returns the pixels and the tensors on the way.

    latents: packed initial latents to use instead of those of the seed.
    """
    pipe.set_progress_bar_config(disable=True)
    arguments = dict(call)
    seed = arguments.pop("seed")
    trace = encode(pipe, call)
    trace["initial_latents"] = pipe.prepare_latents(
        call["num_images_per_prompt"], pipe.transformer.config.in_channels // 4, call["height"],
        call["width"], pipe.transformer.dtype, "cpu", torch.Generator("cpu").manual_seed(seed))[0]

    def keep_latents(_, step, timestep, values):
        del timestep
        trace[f"latents.{step + 1}"] = values["latents"].clone()
        return values

    def keep_sample(module, args, output):
        del module, args
        trace["sample"] = output.clone()

    handle = pipe.vae.decoder.register_forward_hook(keep_sample)
    images = pipe(**arguments, latents=latents, generator=torch.Generator("cpu").manual_seed(seed),
                  callback_on_step_end=keep_latents).images
    handle.remove()
    trace["pixels"] = torch.from_numpy(np.stack([np.asarray(image) for image in images]))
    return trace


@torch.no_grad()
def encode(pipe, call):
    """Token ids and embeddings of the prompt and, where it is used, of the negative prompt."""
    found = {}
    prompts = {"": call["prompt"]}
    if call["negative_prompt"] is not None and call["true_cfg_scale"] > 1:
        prompts["negative_"] = call["negative_prompt"]
    for prefix, prompt in prompts.items():
        tokenizers = (("input_ids", pipe.tokenizer, pipe.tokenizer.model_max_length),
                      ("input_ids_2", pipe.tokenizer_2, call["max_sequence_length"]))
        for name, tokenizer, length in tokenizers:
            ids = tokenizer(prompt, padding="max_length", max_length=length, truncation=True,
                            return_tensors="pt").input_ids
            found[prefix + name] = ids.to(torch.int32)
        embeds, pooled, _ = pipe.encode_prompt(prompt, None, num_images_per_prompt=1,
                                               max_sequence_length=call["max_sequence_length"])
        found[prefix + "prompt_embeds"] = embeds
        found[prefix + "pooled_prompt_embeds"] = pooled
    return found


def save(pipe, path, sentencepiece_model):
    pipe.save_pretrained(path)
    if sentencepiece_model is None:
        return
    # The files of a checkpoint made with transformers 4, beside those of transformers 5.
    tokenizer = pipe.tokenizer
    vocab = dict(sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]))
    write_json(path / "tokenizer" / "vocab.json", vocab, compact=True)
    merges = "".join(f"{' '.join(pair)}\n" for pair in tokenizer._merges)
    (path / "tokenizer" / "merges.txt").write_text("#version: 0.2\n" + merges)
    (path / "tokenizer_2" / "spiece.model").write_bytes(sentencepiece_model)


def run_all(path, model, call):
    traces = {}
    for name, dtype in (("f32", F32), ("bf16", BF16)):
        trace = traces[name] = generate(FluxPipeline.from_pretrained(model, dtype=dtype), call)
        floats = {k: v.to(F32) if v.is_floating_point() else v for k, v in trace.items()}
        write_tensors(path / f"expected_{name}.safetensors", floats)
        for i, picture in enumerate(trace["pixels"]):
            Image.fromarray(picture.numpy()).save(path / f"{name}.{i}.png", optimize=True)
    return {"bf16_psnr": bf16_psnr(model, call, traces)}


def bf16_psnr(model, call, traces):
    """PSNR of the bf16 picture to f32: the original's own error.

    own_noise: each dtype's own noise (they differ by more than rounding where the number of latents
    is no multiple of 16); same_noise: the bf16 noise in both.
    """
    noise = traces["bf16"]["initial_latents"].to(F32)
    same = generate(FluxPipeline.from_pretrained(model, dtype=F32), call, noise)["pixels"]
    pixels = traces["bf16"]["pixels"]
    return {"own_noise": round(psnr(pixels, traces["f32"]["pixels"]), 2),
            "same_noise": round(psnr(pixels, same), 2)}


def psnr(a, b):
    mse = (a.double() - b.double()).square().mean().item()
    return math.inf if mse == 0 else 10 * math.log10(255 ** 2 / mse)


def check(path, call):
    """A picture must have contrast, not be clipped, and depend on every argument."""
    pixels = load_file(path / "expected_f32.safetensors")["pixels"]
    clipped = ((pixels == 0) | (pixels == 255)).double().mean().item()
    std = pixels.double().std().item()
    changes = {"prompt": "A fox in the snow", "seed": 99,
               "num_inference_steps": call["num_inference_steps"] - 1,
               "max_sequence_length": call["max_sequence_length"] // 4}
    pipe = FluxPipeline.from_pretrained(path / "model", dtype=F32)
    if pipe.transformer.config.guidance_embeds:
        changes["guidance_scale"] = call["guidance_scale"] + 0.5
    if call["negative_prompt"]:
        changes.update(negative_prompt="a", true_cfg_scale=2.0)
    effect = {k: round(psnr(generate(pipe, {**call, k: v})["pixels"], pixels), 1)
              for k, v in changes.items()}
    print(f"  std {std:.1f}, clipped {clipped:.4f}, PSNR after changing one argument: {effect}")
    assert std > 25 and clipped < 0.1 and max(effect.values()) < 48
