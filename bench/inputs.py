"""Inputs of a FLUX transformer for `difflet eval`, the same numbers everywhere. Standard library only."""
import array
import json
import random
import struct
from pathlib import Path


def write_safetensors(path, tensors):
    """`tensors`: name -> (shape, array of floats)."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        raw = values.tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def transformer_inputs(model, tokens, text, seed=1):
    """Of the folder model/transformer, for `tokens` image tokens in rows as square as can be."""
    config = json.loads((Path(model) / "transformer/config.json").read_text())
    source = random.Random(seed)

    def noise(*shape):
        count = 1
        for extent in shape:
            count *= extent
        return list(shape), array.array("f", (source.uniform(-1, 1) for _ in range(count)))

    width = max(1, int(tokens ** 0.5))
    image_ids = array.array("f", (v for i in range(tokens) for v in (0, i // width, i % width)))
    tensors = {
        "hidden_states": noise(1, tokens, config["in_channels"]),
        "encoder_hidden_states": noise(1, text, config["joint_attention_dim"]),
        "pooled_projections": noise(1, config["pooled_projection_dim"]),
        "timestep": ([1], array.array("f", [0.75])),
        "img_ids": ([tokens, 3], image_ids),
        "txt_ids": ([text, 3], array.array("f", [0] * (3 * text))),
    }
    if config.get("guidance_embeds"):
        tensors["guidance"] = ([1], array.array("f", [3.5]))
    return tensors
