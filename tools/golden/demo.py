"""Pictures of the demo checkpoint: python tools/golden/demo.py FOLDER [--prompt TEXT ...]"""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path = [str(HERE.parents[1])] + [p for p in sys.path if pathlib.Path(p).resolve() != HERE]

from tools.golden import generate  # noqa: E402

PROMPTS = ["a red apple", "a photo of a cactus", "a picture of a snowman", "an emoji of a sunrise",
           "a hamburger on a white background"]
# 512 text tokens and the default scales, as a caller gets who gives none of them.
CALL = dict(num_inference_steps=12, guidance_scale=3.5, width=64, height=64)
# The embeddings of 512 tokens and the latents between would be most of the size.
LEFT_OUT = ("prompt_embeds", "negative_prompt_embeds")


def make_all(model, prompts):
    import torch
    from PIL import Image
    from diffusers import FluxPipeline

    from tools.golden import pipelines
    from tools.golden.common import BF16, F32, case_dir, write_json, write_tensors

    pipes = {"f32": FluxPipeline.from_pretrained(model, dtype=F32),
             "bf16": FluxPipeline.from_pretrained(model, dtype=BF16)}
    case_dir("demo")
    for i, prompt in enumerate(prompts):
        path = case_dir("demo", str(i))
        call = {**pipelines.DEFAULTS, **CALL, "prompt": prompt, "seed": i}
        traces = {}
        for name, pipe in pipes.items():
            trace = traces[name] = pipelines.generate(pipe, call)
            last = f"latents.{call['num_inference_steps']}"
            kept = {k: v.to(F32) if v.is_floating_point() else v for k, v in trace.items()
                    if k not in LEFT_OUT and (not k.startswith("latents.") or k == last)}
            write_tensors(path / f"expected_{name}.safetensors", kept)
            Image.fromarray(trace["pixels"][0].numpy()).save(path / f"{name}.0.png", optimize=True)
        pixels = traces["f32"]["pixels"].double()
        assert torch.isfinite(traces["f32"]["sample"]).all() and pixels.std() > 10
        result = {"bf16_psnr": pipelines.bf16_psnr(model, call, traces)}
        write_json(path / "case.json", {**call, **result})
        print(f"demo/{i}: {prompt!r} {result}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path, help="folder with model_index.json")
    parser.add_argument("--prompt", action="append", help="instead of the five built in; repeatable")
    arguments = parser.parse_args()
    generate.set_up()
    make_all(arguments.model, arguments.prompt or PROMPTS)
    generate.write_versions()
