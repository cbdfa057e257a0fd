"""FlowMatchEulerDiscreteScheduler: sigmas and timesteps, and step() in three dtype combinations."""

import numpy as np
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from diffusers.pipelines.flux.pipeline_flux import calculate_shift

from tools.golden.common import BF16, F32, case_dir, rng, write_json, write_tensors

FLUX_DEV = dict(use_dynamic_shifting=True, shift=3.0, base_shift=0.5, max_shift=1.15,
                base_image_seq_len=256, max_image_seq_len=4096)
FEW = [1, 2, 3, 4, 7, 20, 28, 50]
CONFIGS = {
    # name: (config, step counts, image token counts for mu)
    "flux_dev": (FLUX_DEV, range(1, 51), [1024]),
    "flux_dev_sizes": (FLUX_DEV, [4, 28], [1, 16, 256, 1560, 4096, 8100, 16384]),
    "flux_schnell": (dict(shift=1.0), range(1, 51), []),
    "static_shift_3": (dict(shift=3.0), FEW, []),
    "static_shift_7": (dict(shift=7.0), FEW, []),
    "train_steps_500": (dict(num_train_timesteps=500, shift=2.5), [5, 10], []),
    "terminal": (dict(FLUX_DEV, shift_terminal=0.02), [2, 3, 8, 28], [1024]),
    "terminal_static": (dict(shift=2.0, shift_terminal=0.1), [2, 3, 8, 28], []),
    "linear_shift": (dict(FLUX_DEV, time_shift_type="linear", base_shift=1.5, max_shift=4.0), FEW,
                     [256, 1024]),
    "other_shift_line": (dict(FLUX_DEV, base_shift=0.3, max_shift=0.9, base_image_seq_len=100,
                              max_image_seq_len=8192), [8], [64, 6032]),
    "inverted": (dict(shift=3.0, invert_sigmas=True), [1, 4, 20], []),
    "karras": (dict(shift=3.0, use_karras_sigmas=True), [2, 4, 20], []),
    "exponential": (dict(FLUX_DEV, use_exponential_sigmas=True), [2, 4, 20], [1024]),
}
TRACES = [("f32", F32, F32), ("bf16", BF16, BF16), ("f32_latents_bf16_output", F32, BF16)]


def make_all():
    path = case_dir("scheduler")
    cases = [schedule(name, *entry) for name, entry in CONFIGS.items()]
    write_json(path / "flow_match_euler.json", cases, compact=True)
    tensors = {}
    for name, sample_dtype, output_dtype in TRACES:
        trace(tensors, name, sample_dtype, output_dtype)
    write_tensors(path / "step_traces.safetensors", tensors)
    print(f"scheduler: {sum(len(c['runs']) for c in cases)} schedules, {len(TRACES)} traces")


def schedule(name, config, counts, token_counts):
    """Each run twice: the sigmas that the pipelines pass, and those that the scheduler makes."""
    runs = []
    for count in counts:
        for tokens in token_counts or [None]:
            for given in (True, False):
                runs.append(run(config, count, tokens, given))
    full = dict(FlowMatchEulerDiscreteScheduler(**config).config)
    full.pop("_use_default_values")
    return {"name": name, "config": full, "runs": runs}


def run(config, count, tokens, given):
    scheduler = FlowMatchEulerDiscreteScheduler(**config)
    mu = tokens and shift_of(scheduler, tokens)
    sigmas = np.linspace(1.0, 1 / count, count) if given else None
    scheduler.set_timesteps(count, sigmas=sigmas, mu=mu)
    return {"steps": count, "image_tokens": tokens, "mu": mu, "pipeline_sigmas": given,
            "sigmas": shortest(scheduler.sigmas), "timesteps": shortest(scheduler.timesteps)}


def shift_of(scheduler, tokens):
    c = scheduler.config
    return calculate_shift(tokens, c.base_image_seq_len, c.max_image_seq_len, c.base_shift,
                           c.max_shift)


def shortest(tensor):
    """The f32 values as the shortest decimals that read back as the same f32."""
    return [float(str(v)) for v in tensor.numpy()]


def trace(tensors, name, sample_dtype, output_dtype):
    scheduler = FlowMatchEulerDiscreteScheduler(**FLUX_DEV)
    steps = 6
    scheduler.set_timesteps(sigmas=np.linspace(1.0, 1 / steps, steps), mu=shift_of(scheduler, 300))
    sample = torch.randn(2, 5, 8, generator=rng("trace", "sample")).to(sample_dtype)
    tensors[f"{name}.sigmas"] = scheduler.sigmas.clone()
    tensors[f"{name}.sample.0"] = sample.clone()
    for i, t in enumerate(scheduler.timesteps):
        output = torch.randn(sample.shape, generator=rng("trace", i)).to(output_dtype)
        sample = scheduler.step(output, t, sample, return_dict=False)[0]
        tensors[f"{name}.output.{i}"] = output
        tensors[f"{name}.sample.{i + 1}"] = sample.clone()
