"""One step of a FLUX transformer folder with diffusers, in bf16: the peer of bench/startup.py.

    python bench/diffusers_step.py CHECKPOINT INPUTS THREADS
"""
import sys

import torch
from diffusers import FluxTransformer2DModel
from safetensors.torch import load_file


def main():
    checkpoint, inputs, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(threads)
    model = FluxTransformer2DModel.from_pretrained(
        checkpoint, subfolder="transformer", torch_dtype=torch.bfloat16
    )
    tensors = {
        name: value if name.endswith("_ids") else value.to(torch.bfloat16)
        for name, value in load_file(inputs).items()
    }
    with torch.inference_mode():
        sample = model(**tensors, return_dict=False)[0]
    print(float(sample.float().abs().mean()))


main()
