"""Writes the golden files: python tools/golden/generate.py [part ...]; no part means all."""

import importlib
import os
import pathlib
import platform
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
# Python puts a script's own folder first on the path; here tokenizers.py would hide the library.
HERE = pathlib.Path(__file__).resolve().parent
sys.path = [str(HERE.parents[1])] + [p for p in sys.path if pathlib.Path(p).resolve() != HERE]

PARTS = ["clip", "t5", "flux", "vae", "schedules", "noise", "postprocess", "pipelines"]


def write_versions():
    from importlib.metadata import version

    from tools.golden.common import DATA, write_json

    names = ["torch", "diffusers", "transformers", "tokenizers", "safetensors", "sentencepiece",
             "numpy", "pillow", "ftfy"]
    versions = {name: version(name) for name in names}
    write_json(DATA / "versions.json", {"python": platform.python_version(), **versions})


def set_up():
    import diffusers
    import torch

    diffusers.logging.set_verbosity_error()
    torch.set_num_threads(1)


def main(parts):
    set_up()
    for part in parts or PARTS:
        if part not in PARTS:
            sys.exit(f"unknown part {part}; one of {', '.join(PARTS)}")
        importlib.import_module(f"tools.golden.{part}").make_all()
    write_versions()


if __name__ == "__main__":
    main(sys.argv[1:])
