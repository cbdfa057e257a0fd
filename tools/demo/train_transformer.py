#!/usr/bin/env python3
"""Trains the demo's FluxTransformer2DModel by flow matching.

FLUX lets the padding of the text attend. All padding tokens are alike here (same output of
T5, same position), so one token whose attention logits get +log(n) stands for n of them:
training costs some 16 text tokens and is exact for any length. See --check.
"""
import argparse
import copy
import math
import os
import random

import torch
from diffusers import AutoencoderKL, FluxTransformer2DModel
from diffusers.models.transformers.transformer_flux import FluxAttnProcessor, apply_rotary_emb
from transformers import CLIPTextModel, CLIPTokenizer, T5EncoderModel, T5Tokenizer

import common
import pictures
import prompts

LENGTHS = [512, 512, 512, 512, 512, 256, 128, 77, 384]


def build():
    return FluxTransformer2DModel(
        patch_size=1, in_channels=32, num_layers=2, num_single_layers=4, attention_head_dim=32,
        num_attention_heads=6, joint_attention_dim=128, pooled_projection_dim=128,
        guidance_embeds=True, axes_dims_rope=(8, 12, 12))


class PlainAttention(FluxAttnProcessor):
    """FLUX's attention written out: on CPUs its gradient is much quicker for short texts."""

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None,
                 image_rotary_emb=None):
        def heads(x):
            return x.unflatten(-1, (-1, attn.head_dim))

        x, text = hidden_states, encoder_hidden_states
        q, k, v = attn.norm_q(heads(attn.to_q(x))), attn.norm_k(heads(attn.to_k(x))), \
            heads(attn.to_v(x))
        if text is not None:
            q = torch.cat([attn.norm_added_q(heads(attn.add_q_proj(text))), q], 1)
            k = torch.cat([attn.norm_added_k(heads(attn.add_k_proj(text))), k], 1)
            v = torch.cat([heads(attn.add_v_proj(text)), v], 1)
        q = apply_rotary_emb(q, image_rotary_emb, sequence_dim=1) * attn.head_dim ** -0.5
        k = apply_rotary_emb(k, image_rotary_emb, sequence_dim=1)
        kind = torch.bfloat16 if torch.is_autocast_enabled("cpu") else torch.float32
        q, k, v = (a.transpose(1, 2).to(kind) for a in (q, k, v))
        weights = torch.softmax((q @ k.transpose(-1, -2)).float() + attention_mask, -1)
        x = (weights.to(kind) @ v).transpose(1, 2).flatten(2, 3)
        if text is None:
            return x
        text, x = x.split([text.shape[1], x.shape[1] - text.shape[1]], 1)
        return attn.to_out[0](x), attn.to_add_out(text)


def pack(latents):
    """[n, c, h, w] -> [n, h/2 * w/2, 4c], as FluxPipeline packs."""
    n, c, h, w = latents.shape
    latents = latents.view(n, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5)
    return latents.reshape(n, h * w // 4, 4 * c)


def image_ids(height, width):
    ids = torch.zeros(height, width, 3)
    ids[..., 1] += torch.arange(height)[:, None]
    ids[..., 2] += torch.arange(width)[None, :]
    return ids.reshape(-1, 3)


@torch.no_grad()
def load_latents(folder):
    vae = AutoencoderKL.from_pretrained(os.path.join(folder, "vae"))
    latents = torch.cat([vae.encode(x).latent_dist.mode()
                         for x in common.picture_tensor().split(20)])
    return (latents - vae.config.shift_factor) * vae.config.scaling_factor


class Texts:
    """Token ids of all phrasings, and the encoders' outputs for a batch of them."""

    def __init__(self, folder, variants):
        self.clip_tokenizer = CLIPTokenizer.from_pretrained(os.path.join(folder, "tokenizer"))
        self.t5_tokenizer = T5Tokenizer.from_pretrained(os.path.join(folder, "tokenizer_2"))
        # The weights are stored in bfloat16; compute in float32 with those values.
        self.clip = CLIPTextModel.from_pretrained(
            os.path.join(folder, "text_encoder")).float().eval()
        self.t5 = T5EncoderModel.from_pretrained(
            os.path.join(folder, "text_encoder_2")).float().eval()
        names = [name for _, name in pictures.load_concepts()]
        bank = prompts.bank(names, variants)
        self.variants = variants
        flat = [text for texts in bank for text in texts]
        self.ids = [self.t5_tokenizer(text).input_ids for text in flat]
        self.pooled = torch.cat([self.pool(flat[i:i + 500]) for i in range(0, len(flat), 500)])

    @torch.no_grad()
    def pool(self, texts):
        ids = self.clip_tokenizer(texts, padding=True, truncation=True,
                                  return_tensors="pt").input_ids
        return self.clip(input_ids=ids).pooler_output

    @torch.no_grad()
    def encode(self, rows, length):
        """T5's output with one padding token, and the logarithm of each token's count."""
        rows = [self.ids[r] for r in rows]
        width = max(map(len, rows)) + 1
        ids = torch.tensor([r + [0] * (width - len(r)) for r in rows])
        counts = torch.full(ids.shape, float("-inf"))
        for i, r in enumerate(rows):
            counts[i, :len(r)] = 0
            counts[i, len(r)] = math.log(length - len(r))
        hidden = self.t5(input_ids=ids, attention_mask=counts[:, None, None, :]
                         .expand(-1, 1, width, -1)).last_hidden_state
        return hidden, counts

    def batch(self, concepts, rng, length):
        rows = [int(c) * self.variants + rng.randrange(self.variants) for c in concepts]
        hidden, counts = self.encode(rows, length)
        return hidden, counts, self.pooled[rows]


def forward(model, x, t, guidance, hidden, counts, pooled, ids):
    mask = torch.cat([counts, torch.zeros(len(x), x.shape[1])], 1)[:, None, None, :]
    return model(hidden_states=x, timestep=t, guidance=guidance, pooled_projections=pooled,
                 encoder_hidden_states=hidden, txt_ids=torch.zeros(hidden.shape[1], 3),
                 img_ids=ids, joint_attention_kwargs={"attention_mask": mask},
                 return_dict=False)[0]


@torch.no_grad()
def check(model, texts):
    """Largest difference between one weighted padding token and 512 real tokens."""
    rows, length = [5, 77, 200], 512
    hidden, counts = texts.encode(rows, length)
    full = torch.tensor([texts.ids[r] + [0] * (length - len(texts.ids[r])) for r in rows])
    real = texts.t5(input_ids=full).last_hidden_state
    error = max((hidden[i, :len(texts.ids[r]) + 1] - real[i, :len(texts.ids[r]) + 1]).abs().max()
                for i, r in enumerate(rows))
    x, ids = torch.randn(3, 64, 32), image_ids(8, 8)
    t, guidance = torch.tensor([0.9, 0.5, 0.1]), torch.full((3,), 3.5)
    quick = copy.deepcopy(model)
    quick.set_attn_processor(PlainAttention())
    short = forward(quick, x, t, guidance, hidden, counts, texts.pooled[rows], ids)
    plain = model(hidden_states=x, timestep=t, guidance=guidance, encoder_hidden_states=real,
                  pooled_projections=texts.pooled[rows], txt_ids=torch.zeros(length, 3),
                  img_ids=ids, return_dict=False)[0]
    print("T5 differs by %.2e, the transformer by %.2e (outputs' deviation %.2f)" %
          (error, (short - plain).abs().max(), plain.std()))


def shifted_times(count):
    """Logit-normal times, pushed to the noisy side as the scheduler does."""
    u = torch.sigmoid(torch.randn(count))
    shift = math.exp(0.5)
    return shift * u / (1 + (shift - 1) * u)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="work")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=1.2e-3)
    parser.add_argument("--variants", type=int, default=24)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(4)
    model = build()
    texts = Texts(args.out, args.variants)
    if args.check:
        check(model, texts)
        return
    data = pack(load_latents(args.out))
    print("parameters: %.2f M" % (sum(p.numel() for p in model.parameters()) / 1e6), flush=True)
    average = copy.deepcopy(model).requires_grad_(False)
    model.set_attn_processor(PlainAttention())
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate, betas=(0.9, 0.98),
                                  weight_decay=0.01)
    state_path = os.path.join(args.out, "transformer.pt")
    step, spent = 0, 0.0
    if args.resume and os.path.exists(state_path):
        state = torch.load(state_path)
        model.load_state_dict(state["model"])
        average.load_state_dict(state["average"])
        optimizer.load_state_dict(state["optimizer"])
        step, spent = state["step"], state["spent"]
    clock = common.Clock(args.minutes, spent)
    rng = random.Random(step)
    torch.manual_seed(4 + step)
    batches = common.shuffled(len(data), args.batch, torch.Generator().manual_seed(step))
    ids, losses = image_ids(8, 8), []
    while clock.progress() < 1:
        for group in optimizer.param_groups:
            group["lr"] = common.learning_rate(clock.progress(), step, args.rate)
        index = next(batches)
        hidden, counts, pooled = texts.batch(index, rng, rng.choice(LENGTHS))
        clean, noise, t = data[index], torch.randn(len(index), *data.shape[1:]), \
            shifted_times(len(index))
        x = torch.lerp(clean, noise, t[:, None, None])
        # The guidance scale is an input without a meaning here: any value is the same.
        guidance = torch.full((len(index),), 3.5)
        if step % 4 == 0:
            guidance = 1 + 7 * torch.rand(len(index))
        with torch.autocast("cpu", torch.bfloat16):
            v = forward(model, x, t, guidance, hidden, counts, pooled, ids).float()
        loss = ((v - (noise - clean)) ** 2).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        common.update_average(average, model, step, 0.997)
        losses.append(loss.item())
        step += 1
        if step % 25 == 0:
            print("step %d  %.1f min  loss %.4f" %
                  (step, clock.spent() / 60, sum(losses[-50:]) / len(losses[-50:])), flush=True)
        if step % 100 == 0 or clock.progress() >= 1:
            common.save_state(state_path, model=model.state_dict(),
                              average=average.state_dict(), optimizer=optimizer.state_dict(),
                              step=step, spent=clock.spent())
    average.save_pretrained(os.path.join(args.out, "transformer"))


if __name__ == "__main__":
    main()
