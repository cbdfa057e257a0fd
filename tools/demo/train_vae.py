#!/usr/bin/env python3
"""Trains the demo's AutoencoderKL, and afterwards its decoder alone.

  train_vae.py --out work --minutes 25
  train_vae.py --out work --minutes 15 --decoder-only     (encoder and latents stay)

Every run can be continued after an interruption with --resume.
"""
import argparse
import copy
import os

import torch
from diffusers import AutoencoderKL

import common


def build():
    return AutoencoderKL(
        in_channels=3, out_channels=3, latent_channels=8, sample_size=64,
        down_block_types=["DownEncoderBlock2D"] * 3, up_block_types=["UpDecoderBlock2D"] * 3,
        block_out_channels=[32, 64, 96], layers_per_block=1, norm_num_groups=8,
        use_quant_conv=False, use_post_quant_conv=False, mid_block_add_attention=True)


@torch.no_grad()
def measure(vae, data):
    """PSNR of the reconstructions and the latents' mean and deviation."""
    with torch.autocast("cpu", torch.bfloat16):
        latents = torch.cat([vae.encode(x).latent_dist.mode().float() for x in data.split(50)])
        value = sum(common.psnr(vae.decode(z).sample.float(), x) * len(x)
                    for z, x in zip(latents.split(50), data.split(50))) / len(data)
    return value, latents.mean().item(), latents.std().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="work")
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--floor", type=float, default=0.05, help="last learning rate / first")
    parser.add_argument("--decoder-only", action="store_true")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    os.makedirs(args.out, exist_ok=True)
    folder = os.path.join(args.out, "vae")
    state_path = os.path.join(args.out, "decoder.pt" if args.decoder_only else "vae.pt")

    data = common.picture_tensor().contiguous(memory_format=torch.channels_last)
    vae = AutoencoderKL.from_pretrained(folder) if args.decoder_only else build()
    vae = vae.to(memory_format=torch.channels_last)
    average = copy.deepcopy(vae).requires_grad_(False)
    trained = vae.decoder if args.decoder_only else vae
    optimizer = torch.optim.AdamW(trained.parameters(), lr=args.rate, betas=(0.9, 0.99),
                                  weight_decay=1e-4)
    step, spent = 0, 0.0
    if args.resume and os.path.exists(state_path):
        state = torch.load(state_path)
        vae.load_state_dict(state["vae"])
        average.load_state_dict(state["average"])
        optimizer.load_state_dict(state["optimizer"])
        step, spent = state["step"], state["spent"]
    if args.decoder_only:
        with torch.no_grad():
            mean = torch.cat([vae.encode(x).latent_dist.mode() for x in data.split(20)])
        noise = 0.05 * mean.std().item()  # generated latents are never exact either

    clock = common.Clock(args.minutes, spent)
    batches = common.shuffled(len(data), args.batch, torch.Generator().manual_seed(step))
    while clock.progress() < 1:
        for group in optimizer.param_groups:
            group["lr"] = common.learning_rate(clock.progress(), step, args.rate, args.floor)
        index = next(batches)
        x = data[index]
        with torch.autocast("cpu", torch.bfloat16):
            if args.decoder_only:
                z, kl = mean[index] + noise * torch.randn_like(mean[index]), 0.0
            else:
                if step % 4 == 3:
                    x = x.flip(-1)
                posterior = vae.encode(x).latent_dist
                z, kl = posterior.sample(), posterior.kl().mean() / posterior.mean[0].numel()
            y = vae.decode(z).sample.float()
        error = y - x
        square = (error ** 2).mean()
        loss = error.abs().mean() + square + 1e-5 * kl
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained.parameters(), 1.0)
        optimizer.step()
        common.update_average(average, vae, step, 0.998)
        step += 1
        if step % 50 == 0:
            print("step %d  %.1f min  loss %.4f  batch mse %.5f" %
                  (step, clock.spent() / 60, loss.item(), square.item()), flush=True)
        if step % 500 == 0 or clock.progress() >= 1:
            print("PSNR %.2f dB, latents' mean %.3f, deviation %.3f" % measure(average, data),
                  flush=True)
            common.save_state(state_path, vae=vae.state_dict(), average=average.state_dict(),
                              optimizer=optimizer.state_dict(), step=step, spent=clock.spent())
    if not args.decoder_only:
        _, mean, deviation = measure(average, data)
        average.register_to_config(scaling_factor=round(1 / deviation, 4),
                                   shift_factor=round(mean, 4))
    average.save_pretrained(folder)


if __name__ == "__main__":
    main()
