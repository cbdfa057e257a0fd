"""What every golden generator shares: random weights, running in two dtypes, writing a case."""

import json
import pathlib
import re
import shutil
import zlib

import torch
from safetensors.torch import save_file

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "data"
BF16 = torch.bfloat16
F32 = torch.float32


def rng(*key):
    """A torch generator that depends on the key only, not on what was drawn before."""
    return torch.Generator("cpu").manual_seed(zlib.crc32("/".join(map(str, key)).encode()))


def draw(shape, *key, std=1.0):
    """Normal values that bf16 holds exactly, so that both dtypes see the same input."""
    return (torch.randn(shape, generator=rng(*key)) * std).to(BF16).to(F32)


def draw_ids(shape, low, high, *key):
    return torch.randint(low, high, shape, generator=rng(*key)).to(torch.int32)


def fill(model, seed, gains=()):
    """Gives every parameter a non-trivial value.

    Matrices and kernels: normal, std = gain / sqrt(fan in). Norm weights: about 1. Biases: small.
    Embedding tables: std = gain. gains: (regular expression, factor) pairs; all that match apply.
    """
    with torch.no_grad():
        for name, p in model.named_parameters():
            value = torch.randn(p.shape, generator=rng(seed, name))
            gain = 1.0
            for pattern, factor in gains:
                if re.search(pattern, name):
                    gain *= factor
            if p.ndim == 1 and name.endswith("weight"):
                value = 1 + 0.2 * gain * value
            elif p.ndim == 1:
                value = 0.1 * gain * value
            elif re.search(r"embedding\.weight|embed_tokens|shared|relative_attention_bias", name):
                value = gain * value
            else:
                value = gain * value / p[0].numel() ** 0.5
            p.copy_(value)
    return model.eval().requires_grad_(False)


def case_dir(*parts):
    """An empty folder below tests/golden/data."""
    path = DATA.joinpath(*parts)
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def write_json(path, value, compact=False):
    style = {"separators": (",", ":")} if compact else {"indent": 2}
    path.write_text(json.dumps(value, **style) + "\n")


def write_tensors(path, tensors):
    save_file({k: v.detach().contiguous() for k, v in tensors.items()}, path)


def to_bf16(inputs):
    return {k: v.to(BF16) if v.is_floating_point() else v for k, v in inputs.items()}


def as_f32(outputs):
    return {k: v.to(F32) for k, v in outputs.items()}


def error(got, want):
    """Largest difference over largest value, and the same with root mean squares."""
    got, want = got.double(), want.double()
    diff = got - want
    return {
        "max": float(f"{(diff.abs().max() / want.abs().max()).item():.4g}"),
        "rms": float(f"{(diff.square().mean() / want.square().mean()).sqrt().item():.4g}"),
    }


def record(path, load, call, inputs, case, hooks=()):
    """Runs the checkpoint saved in `path` in f32 and bf16 and writes inputs, outputs, case.json.

    load(): the original's from_pretrained in f32. call(model, inputs): a dict of named outputs.
    hooks: module paths whose f32 outputs go to blocks_f32.safetensors.
    """
    model = load()
    write_tensors(path / "inputs.safetensors", inputs)
    blocks = {}
    handles = [model.get_submodule(name).register_forward_hook(_keep(blocks, name))
               for name in hooks]
    with torch.no_grad():
        f32 = call(model, inputs)
        for handle in handles:
            handle.remove()
        bf16 = as_f32(call(model.to(BF16), to_bf16(inputs)))
    assert all(v.dtype == F32 for v in f32.values())
    assert all(torch.isfinite(v).all() for v in [*f32.values(), *bf16.values()])
    write_tensors(path / "expected_f32.safetensors", f32)
    write_tensors(path / "expected_bf16.safetensors", bf16)
    if hooks:
        write_tensors(path / "blocks_f32.safetensors", blocks)
    case = dict(case)
    case["std_f32"] = {k: float(f"{v.std().item():.4g}") for k, v in f32.items()}
    case["bf16_error"] = {k: error(bf16[k], f32[k]) for k in f32}
    write_json(path / "case.json", case)
    size = sum(f.stat().st_size for f in path.iterdir())
    errors = " ".join(f"{k} {e['max']:.2e}/{e['rms']:.2e}" for k, e in case["bf16_error"].items())
    print(f"{path.relative_to(DATA)}: {size // 1024} KiB, bf16 error {errors}")


def _keep(store, name):
    def hook(module, args, output):
        del module, args
        if torch.is_tensor(output):
            store[name] = output.clone()
            return
        values = output.values() if isinstance(output, dict) else output
        tensors = [t for t in values if torch.is_tensor(t)]
        for i, tensor in enumerate(tensors):
            store[name if len(tensors) == 1 else f"{name}.{i}"] = tensor.clone()

    return hook
