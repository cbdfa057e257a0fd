"""Writes the golden files: python tools/golden/generate.py [part ...]; no part means all of them."""

import importlib
import os
import pathlib
import platform
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
# As a script, Python would put this folder first on the path, where tokenizers.py hides the library.
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path = [str(ROOT)] + [p for p in sys.path if pathlib.Path(p or ".").resolve() != ROOT / "tools" / "golden"]

PARTS = ["clip", "t5", "flux", "vae", "schedules", "noise", "postprocess", "pipelines"]


def write_versions():
    from importlib.metadata import version

    from tools.golden.common import DATA, write_json

    names = ["torch", "diffusers", "transformers", "tokenizers", "safetensors", "sentencepiece",
             "numpy", "pillow", "ftfy"]
    versions = {name: version(name) for name in names}
    write_json(DATA / "versions.json", {"python": platform.python_version(), **versions})


def main(parts):
    import diffusers
    import torch

    diffusers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for part in parts or PARTS:
        if part not in PARTS:
            sys.exit(f"unknown part {part}; one of {', '.join(PARTS)}")
        importlib.import_module(f"tools.golden.{part}").make_all()
    write_versions()


if __name__ == "__main__":
    main(sys.argv[1:])
