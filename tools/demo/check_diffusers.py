#!/usr/bin/env python3
"""The same evaluation as `evaluate`, by diffusers' own FluxPipeline in bfloat16."""
import argparse

import numpy as np
import torch
from diffusers import FluxPipeline
from PIL import Image

import common
import pictures
import prompts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sheet", help="write all pictures into one PNG")
    parser.add_argument("--prompt", help="only this prompt, into --sheet")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    pipe = FluxPipeline.from_pretrained(args.model, dtype=torch.bfloat16)
    pipe.set_progress_bar_config(disable=True)
    concepts = pictures.load_concepts()

    def draw(prompt, seed):
        # The pipeline's own default is 128 latents a side whatever the VAE's sample_size says.
        return pipe(prompt, height=pictures.SIZE, width=pictures.SIZE,
                    num_inference_steps=args.steps,
                    generator=torch.Generator().manual_seed(seed)).images[0]

    if args.prompt:
        draw(args.prompt, 0).save(args.sheet)
        return
    data = common.picture_tensor()
    with torch.no_grad():
        made = torch.cat([pipe.vae(x.bfloat16()).sample.float() for x in data.split(50)])
    print("VAE reconstruction: %.2f dB" % common.psnr(made, data), flush=True)
    thumbs = np.stack([pictures.thumbnail(p) for p in pictures.pictures(concepts)])
    hits, images = 0, []
    for index, prompt, seed in prompts.questions(concepts, args.count):
        image = draw(prompt, seed)
        images.append(image)
        found = pictures.nearest(image, thumbs)
        hits += found == index
        if found != index:
            print("miss: %r looks like %r" % (prompt, concepts[found][1]), flush=True)
    if args.sheet:
        sheet = Image.new("RGB", (10 * 64, (len(images) + 9) // 10 * 64), "white")
        for i, image in enumerate(images):
            sheet.paste(image, (i % 10 * 64, i // 10 * 64))
        sheet.save(args.sheet)
    print("%d/%d" % (hits, args.count))


if __name__ == "__main__":
    main()
