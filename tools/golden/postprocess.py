"""VaeImageProcessor.postprocess to 8 bits: rounding of halves, clamping, arithmetic in bf16."""

import numpy as np
import torch
from diffusers.image_processor import VaeImageProcessor

from tools.golden.common import BF16, F32, case_dir, rng, write_tensors


def make_all():
    path = case_dir("postprocess")
    # Both sides of, and as near as f32 gets to, every boundary between two 8-bit values.
    halves = (torch.arange(256, dtype=torch.float64) + 0.5) / 255 * 2 - 1
    halves = torch.stack([halves + d for d in (-2e-7, 0, 2e-7)]).to(F32).flatten()
    edges = torch.tensor([-1e30, -5, -1.000001, -1, -0.0, 0.0, 1, 1.000001, 5, 1e30, 1e-40, -1e-40])
    count = 1024 * 3 - halves.numel() - edges.numel()
    noise = torch.randn(count, generator=rng("postprocess")) * 0.6
    f32 = torch.cat([halves, edges, noise]).reshape(1, 3, 32, 32)
    # Every bf16 value of magnitude 2^-8 to 1 and a little above, both signs.
    bits = torch.arange(0x3B80, 0x3F86, dtype=torch.int32)
    positive = bits.to(torch.int16).view(BF16)
    bf16 = torch.cat([positive, -positive, torch.tensor([0.0, 3.0, -3.0], dtype=BF16)])
    padding = torch.zeros(-bf16.numel() % 24, dtype=BF16)
    bf16 = torch.cat([bf16, padding]).reshape(2, 3, -1, 4)

    tensors = {}
    processor = VaeImageProcessor(vae_scale_factor=8)
    for name, sample in (("f32", f32), ("bf16", bf16)):
        images = processor.postprocess(sample, output_type="pil")
        tensors[f"{name}.sample"] = sample  # [B, 3, h, w]
        pixels = np.stack([np.asarray(image) for image in images])
        tensors[f"{name}.pixels"] = torch.from_numpy(pixels)  # [B, h, w, 3]
    write_tensors(path / "to_uint8.safetensors", tensors)
    print("postprocess:", {k: list(v.shape) for k, v in tensors.items()})
