"""A FLUX transformer folder of diffusers as one safetensors file under the names of the original release,
where q, k and v (and a single block's first projection) are one matrix. Bytes are copied, not computed:
matrices lie row by row, so one under another is one behind another.
"""
import json
import re
import struct
from pathlib import Path

# name of a module in diffusers -> name in the original (and place among the parts of that matrix)
ROOT = {
    "time_text_embed.timestep_embedder.linear_1": "time_in.in_layer",
    "time_text_embed.timestep_embedder.linear_2": "time_in.out_layer",
    "time_text_embed.text_embedder.linear_1": "vector_in.in_layer",
    "time_text_embed.text_embedder.linear_2": "vector_in.out_layer",
    "time_text_embed.guidance_embedder.linear_1": "guidance_in.in_layer",
    "time_text_embed.guidance_embedder.linear_2": "guidance_in.out_layer",
    "context_embedder": "txt_in",
    "x_embedder": "img_in",
    "proj_out": "final_layer.linear",
    "norm_out.linear": "final_layer.adaLN_modulation.1",
}
DOUBLE = {
    "norm1.linear": ("img_mod.lin", 0),
    "norm1_context.linear": ("txt_mod.lin", 0),
    "attn.to_q": ("img_attn.qkv", 0),
    "attn.to_k": ("img_attn.qkv", 1),
    "attn.to_v": ("img_attn.qkv", 2),
    "attn.add_q_proj": ("txt_attn.qkv", 0),
    "attn.add_k_proj": ("txt_attn.qkv", 1),
    "attn.add_v_proj": ("txt_attn.qkv", 2),
    "attn.norm_q": ("img_attn.norm.query_norm", 0),
    "attn.norm_k": ("img_attn.norm.key_norm", 0),
    "attn.norm_added_q": ("txt_attn.norm.query_norm", 0),
    "attn.norm_added_k": ("txt_attn.norm.key_norm", 0),
    "attn.to_out.0": ("img_attn.proj", 0),
    "attn.to_add_out": ("txt_attn.proj", 0),
    "ff.net.0.proj": ("img_mlp.0", 0),
    "ff.net.2": ("img_mlp.2", 0),
    "ff_context.net.0.proj": ("txt_mlp.0", 0),
    "ff_context.net.2": ("txt_mlp.2", 0),
}
SINGLE = {
    "norm.linear": ("modulation.lin", 0),
    "attn.to_q": ("linear1", 0),
    "attn.to_k": ("linear1", 1),
    "attn.to_v": ("linear1", 2),
    "proj_mlp": ("linear1", 3),
    "attn.norm_q": ("norm.query_norm", 0),
    "attn.norm_k": ("norm.key_norm", 0),
    "proj_out": ("linear2", 0),
}
BLOCK = re.compile(r"(single_)?transformer_blocks\.(\d+)\.(.+)")


def original_name(name):
    """(name in the original file, place among its parts) of a tensor of diffusers."""
    module, _, leaf = name.rpartition(".")
    block = BLOCK.fullmatch(module)
    if block:
        single, index, inner = block.groups()
        found, part = (SINGLE if single else DOUBLE)[inner]
        found = f"{'single' if single else 'double'}_blocks.{index}.{found}"
    else:
        found, part = ROOT[module], 0
    if found.endswith("_norm"):
        leaf = "scale"
    return f"{found}.{leaf}", part


class Piece:
    """Bytes of a tensor, or of some of its rows, in a file."""

    def __init__(self, path, offset, size, dtype, shape):
        self.path, self.offset, self.size, self.dtype, self.shape = path, offset, size, dtype, shape

    def halves(self):
        """The two halves of its rows, the second one first."""
        size, shape = self.size // 2, [self.shape[0] // 2, *self.shape[1:]]
        return [Piece(self.path, self.offset + part * size, size, self.dtype, shape) for part in (1, 0)]


def read_pieces(path):
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
    return {
        name: Piece(path, 8 + size + entry["data_offsets"][0],
                    entry["data_offsets"][1] - entry["data_offsets"][0], entry["dtype"], entry["shape"])
        for name, entry in header.items() if name != "__metadata__"
    }


def write_single_file(folder, target):
    """Writes the transformer of `folder` to `target`, unless it is there and newer."""
    sources = sorted(Path(folder).glob("*.safetensors"))
    if target.exists() and all(target.stat().st_mtime >= path.stat().st_mtime for path in sources):
        return
    parts = {}
    for path in sources:
        for name, piece in read_pieces(path).items():
            new, part = original_name(name)
            # diffusers stores (scale, shift), the original (shift, scale).
            pieces = piece.halves() if name.startswith("norm_out.") else [piece]
            parts.setdefault(new, {})[part] = pieces
    header, order, offset = {}, [], 0
    for name, places in parts.items():
        pieces = [piece for place in sorted(places) for piece in places[place]]
        size = sum(piece.size for piece in pieces)
        rows = sum(piece.shape[0] for piece in pieces)
        header[name] = {"dtype": pieces[0].dtype, "shape": [rows, *pieces[0].shape[1:]],
                        "data_offsets": [offset, offset + size]}
        order += pieces
        offset += size
    write(target, header, order)


def write(target, header, pieces):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    partial = target.with_suffix(".part")
    with partial.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for piece in pieces:
            with piece.path.open("rb") as source:
                source.seek(piece.offset)
                copied, block = 0, 16 << 20
                while copied < piece.size:
                    copied += out.write(source.read(min(block, piece.size - copied)))
    partial.replace(target)
