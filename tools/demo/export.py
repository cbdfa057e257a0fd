#!/usr/bin/env python3
"""Puts the trained parts together as a FluxPipeline folder in bfloat16."""
import argparse
import json
import os

import torch
from diffusers import (AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline,
                       FluxTransformer2DModel)
from transformers import CLIPTextModel, CLIPTokenizer, T5EncoderModel, T5Tokenizer

from train_transformer import build


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", default="work")
    parser.add_argument("--output", default="demo")
    parser.add_argument("--from-state", action="store_true",
                        help="take the average from a running training's saved state")
    args = parser.parse_args()

    def part(name):
        return os.path.join(args.work, name)

    if args.from_state:
        transformer = build()
        transformer.load_state_dict(torch.load(part("transformer.pt"))["average"])
    else:
        transformer = FluxTransformer2DModel.from_pretrained(part("transformer"))
    scheduler = FlowMatchEulerDiscreteScheduler(
        num_train_timesteps=1000, shift=3.0, use_dynamic_shifting=True, base_shift=0.5,
        max_shift=1.15, base_image_seq_len=256, max_image_seq_len=4096)
    tokenizer = CLIPTokenizer.from_pretrained(part("tokenizer"))
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    pipe = FluxPipeline(
        scheduler=scheduler, vae=AutoencoderKL.from_pretrained(part("vae")),
        text_encoder=CLIPTextModel.from_pretrained(part("text_encoder")),
        tokenizer=tokenizer,
        text_encoder_2=T5EncoderModel.from_pretrained(part("text_encoder_2")),
        tokenizer_2=T5Tokenizer.from_pretrained(part("tokenizer_2")), transformer=transformer)
    pipe.to(torch.bfloat16).save_pretrained(args.output)
    for folder, _, files in os.walk(args.output):
        for file in files:
            path = os.path.join(folder, file)
            os.chmod(path, 0o644)
            if file == "config.json":  # keep the place of training out of the files
                with open(path, encoding="utf-8") as stream:
                    config = json.load(stream)
                config.pop("_name_or_path", None)
                with open(path, "w", encoding="utf-8") as stream:
                    stream.write(json.dumps(config, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
