#!/usr/bin/env python3
"""Engine of the benchmark: stable-diffusion.cpp, an external program (`sd-cli`) given by its path.

Options: binary (the path), flags (more command line words for it, separated by spaces).

The program keeps nothing between requests: each `run` starts it, and what it prints is turned into events. It
reads the weights of a stage when the stage begins (of the sampler, before step zero), hence they count there. It
takes no tensors, so components are measured inside a whole request: the transformer by the steps of
its sampler, the decoder by what follows them. Both get the scenario's size; a text encoder cannot be told apart.
Its `output` events describe the picture that it wrote.

It encodes T5 tokens in pieces of 256: the prompt is lengthened where the scenario asks for more text than that,
so that the transformer sees as many tokens as with other engines.
"""
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

# Engines are called as their packages are: not this folder, but the one above is where modules are looked up.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from adapters import _flux_file, protocol  # noqa: E402

STEP = re.compile(r"\|\s*(\d+)/(\d+) - [\d.]+(?:s/it|it/s)")
# What ends a stage, and the stage that follows.
ENDS = {
    "load": ("generate_image ", "encode"),
    "encode": ("get_learned_condition completed", "denoise"),
    "denoise": ("latent images completed", "decode"),
    "decode": ("decode_first_stage completed", None),
}
TEXT_PIECE = 256


def weights(folder):
    """The file that holds, or lists, the weights of a component."""
    for pattern in ("*.safetensors.index.json", "*.safetensors"):
        found = sorted(folder.glob(pattern))
        if found:
            return found[0]
    raise protocol.Failed(f"{folder}: no safetensors weights")


class Lines:
    """The output of a process in lines as they come; a progress bar's carriage return ends one too."""

    def __init__(self, descriptor):
        self._descriptor = descriptor

    def __iter__(self):
        rest = b""
        while chunk := os.read(self._descriptor, 1 << 16):
            *lines, rest = re.split(rb"[\r\n]", rest + chunk)
            # A bar is complete at its escape sequence; its carriage return comes with the next one.
            if rest.endswith(b"\033[K"):
                lines, rest = [*lines, rest], b""
            yield from (line.decode(errors="replace") for line in lines if line)
        if rest:
            yield rest.decode(errors="replace")


class Request:
    """Events of one run of the program, out of the lines that it prints, in this order:
    load, encode, denoise with its steps, decode."""

    def __init__(self, events):
        self._events = events
        self._stage = None
        self._steps = 0
        self.enter("load")

    def enter(self, stage):
        if self._stage:
            self._events.end(self._stage)
        self._stage = stage
        if stage:
            self._events.begin(stage)

    def line(self, text):
        step = STEP.search(text)
        if step and self._stage == "denoise":
            self._events.step(self._steps)
            self._steps += 1
        elif self._stage and ENDS[self._stage][0] in text:
            self.enter(ENDS[self._stage][1])

    def finish(self):
        if self._stage:
            raise protocol.Failed(f"the program ended while it was in {self._stage}")


class Engine:
    def __init__(self, scenario, binary, flags, work):
        self._scenario = scenario
        self._picture = work / "picture.png"
        folder = Path(scenario["model"])
        transformer = work / f"{folder.name}.safetensors"
        _flux_file.write_single_file(folder / "transformer", transformer)
        prompt = scenario["prompt"]
        if scenario["max_sequence_length"] > TEXT_PIECE:
            prompt += " a" * (TEXT_PIECE + 44)
        self._command = [
            binary, "--diffusion-model", transformer, "--vae", weights(folder / "vae"),
            "--clip_l", weights(folder / "text_encoder"), "--t5xxl", weights(folder / "text_encoder_2"),
            "-p", prompt, "-W", scenario["width"], "-H", scenario["height"], "--steps", scenario["steps"],
            "--cfg-scale", 1, "--guidance", scenario["guidance"], "--sampling-method", "euler",
            "--seed", scenario["seed"], "-b", scenario["n"], "-t", scenario["threads"],
            "-o", self._picture, "-v", *flags]

    def run(self, events):
        self._picture.unlink(missing_ok=True)
        request = Request(events)
        process = subprocess.Popen([str(word) for word in self._command], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for line in Lines(process.stdout.fileno()):
            print(line, file=sys.stderr, flush=True)
            request.line(line)
        if process.wait() != 0:
            raise protocol.Failed(f"{self._command[0]} ended with {process.returncode}")
        request.finish()
        self._report(events)

    def _report(self, events):
        pixels, height, width = read_png(self._picture)
        low, high, mean = min(pixels) / 255, max(pixels) / 255, sum(pixels) / len(pixels) / 255
        events.output("images", [1, height, width, 3], True, low, high, mean)

    def outputs(self):
        pixels, height, width = read_png(self._picture)
        return {"images": ((1, height, width, 3), struct.pack(f"<{len(pixels)}f", *(p / 255 for p in pixels)))}


def read_png(path):
    """(RGB bytes, height, width) of a PNG file of 8 bits, RGB, not interlaced."""
    data = path.read_bytes()
    position, header, packed = 8, None, b""
    while position < len(data):
        size, kind = struct.unpack_from(">I4s", data, position)
        if kind == b"IHDR":
            header = struct.unpack_from(">IIBBBBB", data, position + 8)
        elif kind == b"IDAT":
            packed += data[position + 8:position + 8 + size]
        position += 12 + size
    width, height, depth, colour, _, _, interlaced = header
    if (depth, colour, interlaced) != (8, 2, 0):
        raise protocol.Failed(f"{path}: expected 8-bit RGB")
    return unfilter(zlib.decompress(packed), height, width * 3), height, width


def unfilter(raw, height, stride):
    """The rows of a PNG without their filters (3 bytes a pixel)."""
    out, above = bytearray(), bytearray(stride)
    for y in range(height):
        kind, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for x in range(stride):
            left = row[x - 3] if x >= 3 else 0
            corner = above[x - 3] if x >= 3 else 0
            row[x] = (row[x] + predicted(kind, left, above[x], corner)) & 255
        out += row
        above = row
    return bytes(out)


def predicted(kind, left, up, corner):
    if kind == 4:
        base = left + up - corner
        distances = (abs(base - left), abs(base - up), abs(base - corner))
        return (left, up, corner)[distances.index(min(distances))]
    return (0, left, up, (left + up) // 2)[kind]


def make_engine(scenario, events):
    options = scenario.get("options", {})
    protocol.known_options(options, {"binary", "flags"})
    binary = options.get("binary", "")
    if not binary or not shutil.which(binary):
        raise protocol.Unsupported(f"no program {binary!r}")
    if scenario.get("component") in ("text_encoder", "text_encoder_2"):
        raise protocol.Unsupported("the program does not report its text encoders one by one")
    if scenario["dtype"] != "bf16":
        raise protocol.Unsupported("weights are used as they are stored")
    if scenario.get("quant", "none") != "none":
        raise protocol.Unsupported("quantised types are ggml's own, chosen by the flags")
    work = Path(scenario["work"])
    work.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False)
    events.hello("sdcpp", {"stable-diffusion.cpp": (version.stdout or version.stderr).strip()},
                 {"binary": binary, "flags": options.get("flags", "")})
    return Engine(scenario, binary, options.get("flags", "").split(), work)


if __name__ == "__main__":
    sys.exit(protocol.main(make_engine))
