"""Parts of a FLUX folder as torch modules, loaded by diffusers and transformers: what the adapters that
start from PyTorch share.
"""
from pathlib import Path

import torch
from diffusers import AutoencoderKL, FluxTransformer2DModel
from safetensors.torch import load_file
from transformers import CLIPTextModel, T5EncoderModel

DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}

CLASSES = {
    "transformer": FluxTransformer2DModel,
    "vae": AutoencoderKL,
    "text_encoder": CLIPTextModel,
    "text_encoder_2": T5EncoderModel,
}

# Names of the outputs, in the order in which `Component.forward` returns them.
OUTPUTS = {
    "transformer": ["sample"],
    "vae": ["sample"],
    "text_encoder": ["last_hidden_state", "pooler_output"],
    "text_encoder_2": ["last_hidden_state"],
}


class Component(torch.nn.Module):
    """A component as a function of its named inputs that returns a tuple of tensors."""

    def __init__(self, name, module):
        super().__init__()
        self.name = name
        self.module = module

    def forward(self, **inputs):
        if self.name == "vae":
            return self.module.decode(**inputs, return_dict=False)
        if self.name == "transformer":
            return self.module(**inputs, return_dict=False)
        result = self.module(**inputs)
        return tuple(getattr(result, output) for output in OUTPUTS[self.name])


def load_component(folder, name, dtype):
    """The component `name` of the diffusers folder `folder`, in `dtype`."""
    if name not in CLASSES:
        raise ValueError(f"component: expected one of {', '.join(CLASSES)}, found {name!r}")
    # transformers calls the argument dtype, diffusers torch_dtype; both take the latter.
    module = CLASSES[name].from_pretrained(Path(folder) / name, torch_dtype=dtype)
    return Component(name, module.eval())


def load_inputs(path, dtype):
    """{argument: tensor} of a safetensors file: indices as i64, positions as they are, the rest as `dtype`."""
    inputs = {}
    for name, value in load_file(path).items():
        if not value.is_floating_point():
            inputs[name] = value.to(torch.int64)
        else:
            inputs[name] = value if name.endswith("_ids") else value.to(dtype)
    return inputs


def repeated_blocks(name, module):
    """The blocks that are compiled one by one: code of one is used for all of its shape."""
    if name == "transformer":
        return [*module.transformer_blocks, *module.single_transformer_blocks]
    if name == "vae":
        return [module.decoder.mid_block, *module.decoder.up_blocks]
    if name == "text_encoder":
        return list(getattr(module, "text_model", module).encoder.layers)
    return list(module.encoder.block)


def quantize(name, module, mode):
    """Gives the linears of the repeated blocks int8 weights, in place; those within a norm (the modulation's)
    stay as they are. "w8a8" also quantises their inputs, by row, when they run."""
    if mode == "none":
        return
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig, quantize_

    config = Int8DynamicActivationInt8WeightConfig() if mode == "w8a8" else Int8WeightOnlyConfig()

    def is_product(child, path):
        return isinstance(child, torch.nn.Linear) and "norm" not in path

    for block in repeated_blocks(name, module):
        quantize_(block, config, filter_fn=is_product)


def report(events, name, value):
    """The output event of a tensor."""
    value = value.detach().float()
    finite = bool(torch.isfinite(value).all())
    events.output(name, value.shape, finite, value.min().item(), value.max().item(), value.mean().item())


def as_bytes(tensors):
    """{name: (shape, bytes)} as `protocol.save_safetensors` takes it."""
    return {
        name: (tuple(value.shape), value.detach().float().contiguous().numpy().tobytes())
        for name, value in tensors.items()
    }
