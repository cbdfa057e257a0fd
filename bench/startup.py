#!/usr/bin/env python3
"""How long it takes from the start of a process to the first finished step, and where that goes.

Uses the transformer of a synthetic FLUX model (`difflet bench model`, 2 double and 4 single blocks: 2.6 GB in
bf16). Every figure is a ratio of two things measured in turns in this run:

  load        `load_s` of `difflet eval` from the artifact against loading and packing the checkpoint
  first step  a whole `difflet eval` process with the artifact against a Python process with diffusers
  cold        bytes a second from a dropped page cache against a sequential read of the same file
  memory      peak while compiling against the weights
  weights     mapped against copied into huge pages, to the end of a request of several steps

    python3 bench/startup.py --build build/release --work /tmp/startup [--python PYTHON] [--pairs N]

Dropping the page cache needs root; without it `cold` is left out. Without --python the peer is left out.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import inputs

ROOT = Path(__file__).resolve().parent.parent


def run(command, **options):
    """(wall seconds, peak bytes, stdout) of a process that must succeed."""
    start = time.monotonic()
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, **options)
    out, err = process.communicate()
    seconds = time.monotonic() - start
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {err}")
    return seconds, out, err


def peak_of(command):
    """Peak resident bytes of a process."""
    pid = os.posix_spawn(str(command[0]), [str(c) for c in command], os.environ,
                         file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(map(str, command))} failed")
    return usage.ru_maxrss * 1024


def drop_caches():
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def sequential_rate(path):
    """Bytes a second of one sequential pass past the page cache."""
    block = 8 << 20
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    import mmap
    buffer = mmap.mmap(-1, block)
    start = time.monotonic()
    total = 0
    while True:
        got = os.readv(descriptor, [buffer])
        if got <= 0:
            break
        total += got
    os.close(descriptor)
    return total / (time.monotonic() - start)


class Bench:
    def __init__(self, options):
        self.options = options
        self.work = Path(options.work)
        self.difflet = Path(options.build) / "difflet"
        self.model = self.work / "model"
        self.store = self.work / "store"
        self.inputs = self.work / f"inputs-{options.tokens}-{options.text}.safetensors"
        self.component = ["--model", self.model, "--component", "transformer", "--inputs", self.inputs]
        self.results = {}

    def prepare(self):
        self.work.mkdir(parents=True, exist_ok=True)
        if not self.model.exists():
            run([self.difflet, "bench", "model", "--output", self.model, "--t5-layers", 1])
            time.sleep(3)  # a fingerprint of files this young is not kept
        inputs.write_safetensors(self.inputs, inputs.transformer_inputs(
            self.model, self.options.tokens, self.options.text))
        shutil.rmtree(self.store, ignore_errors=True)
        command = [self.difflet, "compile", *self.component, "--cache-dir", self.store]
        start = time.monotonic()
        peak = peak_of(command)
        self.results["compile_s"] = time.monotonic() - start
        self.shard = next(self.store.glob("weights/*/*/*.safetensors"))
        self.bytes = self.shard.stat().st_size
        self.results["compile_peak_over_weights_mb"] = (peak - self.bytes) / (1 << 20)
        os.sync()

    def evaluate(self, artifact, *more, repeat=3):
        seconds, out, err = run([self.difflet, "eval", *self.component, "--cache-dir", self.store,
                                 "--artifact", artifact, "--output", self.work / "out.safetensors",
                                 "--repeat", repeat, "--json", *more])
        report = json.loads(out.splitlines()[-1])
        return seconds, report, err

    def load(self):
        packed, mapped = [], []
        for _ in range(self.options.pairs):
            packed.append(self.evaluate("off")[1]["load_s"])
            mapped.append(self.evaluate("require")[1]["load_s"])
        self.results["load"] = {"packed_s": packed, "artifact_s": mapped,
                                "ratio": statistics.median(packed) / statistics.median(mapped)}
        self.results["phases"] = self.evaluate("require", "--timings")[2].splitlines()

    def first_step(self):
        ours, peers = [], []
        for _ in range(self.options.pairs):
            ours.append(self.evaluate("require", repeat=1)[0])
            if self.options.python:
                peers.append(run([self.options.python, ROOT / "bench/diffusers_step.py", self.model,
                                  self.inputs, os.cpu_count()])[0])
        self.results["first_step"] = {"difflet_s": ours, "diffusers_s": peers}
        if peers:
            self.results["first_step"]["ratio"] = statistics.median(ours) / statistics.median(peers)

    def cold(self):
        rates, disk = [], []
        for _ in range(self.options.pairs):
            drop_caches()
            disk.append(sequential_rate(self.shard))
            drop_caches()
            phases = self.evaluate("require", "--timings", "--weights", "map", repeat=1)[2]
            seconds = float(re.search(r"([\d.]+) ms  transformer: weights", phases)[1]) / 1e3
            rates.append(self.bytes / seconds)
        self.results["cold"] = {"bytes_per_s": rates, "disk_bytes_per_s": disk,
                                "share": statistics.median(rates) / statistics.median(disk)}

    def modes(self):
        times = {"map": [], "copy": []}
        for _ in range(self.options.pairs):
            for mode, all_times in times.items():
                all_times.append(self.evaluate("require", "--weights", mode, repeat=4)[0])
        self.results["end_of_request"] = {
            **times, "map_over_copy": statistics.median(times["map"]) / statistics.median(times["copy"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--work", required=True)
    parser.add_argument("--python")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--text", type=int, default=512)
    bench = Bench(parser.parse_args())
    bench.prepare()
    bench.load()
    bench.modes()
    bench.first_step()
    if os.geteuid() == 0:
        bench.cold()
    print(json.dumps(bench.results, indent=2))


main()
