#!/usr/bin/env python3
"""Bytes a second of `difflet download` against curl fetching the same files from the same server.

A hub on this machine (tests/hub/fake_hub.py) serves a pipeline of --shards files of --mib MiB each. curl
gets all of them in one process, at most eight at once (`--parallel`), without a check of what came;
difflet asks for the list, checks SHA-256 and flushes every file to the disk. Pairs in turns, each
into an empty folder; the median of the ratios counts. The goal is 0.7.

    python3 bench/hub.py --build build/release --work /tmp/hub-bench [--shards N] [--mib N] [--pairs N]
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def make_repository(folder, shards, mib):
    names = [f"diffusion_pytorch_model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    (folder / "transformer").mkdir(parents=True)
    (folder / "model_index.json").write_text(json.dumps(
        {"_class_name": "BenchPipeline", "transformer": ["diffusers", "BenchModel"]}))
    (folder / "transformer/config.json").write_text("{}")
    (folder / "transformer/diffusion_pytorch_model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {str(i): name for i, name in enumerate(names)}}))
    for name in names:
        with (folder / "transformer" / name).open("wb") as f:
            for _ in range(mib):
                f.write(os.urandom(1 << 20))
    return [f"transformer/{name}" for name in names]


def timed(command, environment=None):
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr}")
    return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--pairs", type=int, default=7)
    args = parser.parse_args()
    shutil.rmtree(args.work, ignore_errors=True)
    hub = args.work / "hub"
    files = make_repository(hub / "repos/org/bench", args.shards, args.mib)
    os.sync()
    server = subprocess.Popen([sys.executable, ROOT / "tests/hub/fake_hub.py", hub])
    try:
        while not (hub / "ports.json").exists():
            time.sleep(0.02)
        cdn = json.loads((hub / "ports.json").read_text())["cdn"]
        port = json.loads((hub / "ports.json").read_text())["hub"]
        compare(args, files, f"http://127.0.0.1:{port}", f"http://localhost:{cdn}")
    finally:
        server.kill()
        shutil.rmtree(args.work, ignore_errors=True)


def compare(args, files, endpoint, cdn):
    megabytes = args.shards * args.mib * (1 << 20) / 1e6
    out, cache = args.work / "curl", args.work / "cache"
    curl = ["curl", "-sS", "--fail", "--parallel", "--parallel-max", "8", "--create-dirs"]
    for name in files:
        curl += ["-o", str(out / name), f"{cdn}/org/bench/{name}?signature=valid"]
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HUB_CACHE": str(cache)}
    difflet = [str(args.build / "difflet"), "download", "org/bench", "--quiet"]
    ratios = []
    for pair in range(args.pairs + 1):
        seconds = {}
        for name, command in sorted((("curl", curl), ("difflet", difflet)),
                                    reverse=pair % 2 == 1):
            shutil.rmtree(out, ignore_errors=True)
            shutil.rmtree(cache, ignore_errors=True)
            os.sync()
            seconds[name] = timed(command, environment)
        if pair == 0:
            continue  # the server hashes its files once, and pages get warm
        ratios.append(seconds["curl"] / seconds["difflet"])
        print(f"curl {megabytes / seconds['curl']:7.0f} MB/s  difflet "
              f"{megabytes / seconds['difflet']:7.0f} MB/s  ratio {ratios[-1]:.2f}")
    print(f"median ratio {statistics.median(ratios):.2f} of {len(ratios)} pairs, "
          f"{min(ratios):.2f} ... {max(ratios):.2f}")


main()
