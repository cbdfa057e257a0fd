"""Pictures and names of the demo's concepts.

Shared by training, evaluation and the contact sheet; needs only Pillow and NumPy
and the font of Debian's fonts-noto-color-emoji.
"""
import os
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIZE = 64
FONT = os.environ.get("DEMO_FONT", "/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf")
CONCEPTS = Path(__file__).resolve().parent / "concepts.txt"
_font = None


def font():
    global _font
    if _font is None:
        # The only size at which the font holds its bitmaps.
        _font = ImageFont.truetype(FONT, 109)
    return _font


def render(codepoint, size=SIZE):
    """The glyph on a white square, as an RGB picture of size x size pixels."""
    text = chr(codepoint)
    left, top, right, bottom = font().getbbox(text)
    side = max(right - left, bottom - top, 1)
    canvas = Image.new("RGB", (side, side), "white")
    x = (side - (right - left)) // 2 - left
    y = (side - (bottom - top)) // 2 - top
    ImageDraw.Draw(canvas).text((x, y), text, font=font(), embedded_color=True)
    return canvas.resize((size, size), Image.Resampling.LANCZOS)


def load_concepts(path=CONCEPTS):
    """List of (codepoint, name)."""
    concepts = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            code, name = line.split("\t")
            concepts.append((int(code, 16), name))
    return concepts


def pictures(concepts):
    """uint8 array [n, 64, 64, 3]."""
    return np.stack([np.asarray(render(code)) for code, _ in concepts])


def thumbnail(picture):
    """The picture at 32x32 as a float vector, for comparing."""
    if not isinstance(picture, Image.Image):
        picture = Image.fromarray(picture)
    small = picture.convert("RGB").resize((32, 32), Image.Resampling.BOX)
    return np.asarray(small, dtype=np.float32).reshape(-1) / 255


def nearest(picture, thumbnails):
    """Index of the training thumbnail at the smallest RGB distance."""
    return int(((thumbnails - thumbnail(picture)) ** 2).sum(axis=1).argmin())
