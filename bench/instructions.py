#!/usr/bin/env python3
"""Instructions of one denoising step, counted by valgrind (callgrind) and compared with stored numbers.

Instructions do not depend on how fast or busy the machine is, so a change of a percent is a change of the
code. The step is that of the demo's transformer with 64 image and 32 text tokens, on one thread, at a level
that valgrind can run; it is the difference between a process with two runs and one with one run, and what
is left of the latter is start-up. Loops over data are few here, so overhead beside the kernels shows. The step is
counted with float weights and with int8 ones.

    python3 bench/instructions.py [--build build/release] [--level avx2] [--quant none,w8a16,w8a8] [--update]

Numbers are stored in bench/instructions.json for each compiler, level and mode of quantisation. Ends with 1
when a count is off by more than 2 % (and a hundred thousand instructions); for another compiler there is nothing
to compare with.
"""
import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import inputs

ROOT = Path(__file__).resolve().parent.parent
STORED = Path(__file__).resolve().parent / "instructions.json"
BOUND = 0.02
# Below this a count is that of parsing an option or of the dynamic linker, not of a step.
SMALLEST = 100_000

KERNELS = "difflet::cpu::(anonymous namespace)::"
# The first group whose pattern is in a function's name; all other functions are overhead.
GROUPS = {
    "linear": re.compile(re.escape(KERNELS) + r"(Linear<|tile<|epilogue(_rows)?<)"),
    "attention": re.compile(re.escape(KERNELS) + r"Attention<"),
    "row-wise": re.compile(re.escape(KERNELS) + r"\w*(rope|norm|stats|unary|binary|convert|copy|"
                           r"gather|modulat|softmax|reduce)\w*[<(]|^__(sin|cos)f"),
}
ROW = re.compile(r"\s*([\d,]+) \([ \d.]+%\)  [^:]+:(.*)$")


def compiler(build):
    """"GNU 12.2.0", as CMake found it."""
    for file in build.glob("CMakeFiles/*/CMakeCXXCompiler.cmake"):
        text = file.read_text()
        return " ".join(re.search(rf'CMAKE_CXX_COMPILER_{key} "([^"]+)"', text)[1]
                        for key in ("ID", "VERSION"))
    sys.exit(f"{build}: not a build folder of CMake")


def group_of(function):
    return next((name for name, pattern in GROUPS.items() if pattern.search(function)), "overhead")


def count(binary, level, quant, work, repeat):
    """Instructions by group of a whole process that runs the step `repeat` times."""
    out = work / f"callgrind.{repeat}"
    quantised = [] if quant == "none" else ["--quant", quant]
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", binary, "eval",
               "--model", ROOT / "demo", "--component", "transformer",
               "--inputs", work / "inputs.safetensors", "--output", work / f"out.{repeat}.safetensors",
               "--artifact", "off", "--threads", 1, "--cpu-level", level, "--repeat", repeat, *quantised]
    run = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {run.stderr}")
    listing = subprocess.run(["callgrind_annotate", "--threshold=100", "--auto=no", str(out)],
                             capture_output=True, text=True, check=True).stdout
    groups = dict.fromkeys([*GROUPS, "overhead"], 0)
    for line in listing.splitlines():
        row = ROW.match(line)
        if row:
            groups[group_of(row[2])] += int(row[1].replace(",", ""))
    return groups


def measure(binary, level, quant):
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        work = Path(folder)
        inputs.write_safetensors(work / "inputs.safetensors",
                                 inputs.transformer_inputs(ROOT / "demo", 64, 32))
        once, twice = pool.map(lambda repeat: count(binary, level, quant, work, repeat), (1, 2))
    step = {name: twice[name] - once[name] for name in once}
    total = sum(step.values())
    return {**step, "step": total, "start-up": sum(once.values()) - total}


def report(counts, stored):
    """Prints each count beside the stored one; whether all are within the bound."""
    good = True
    for name, value in counts.items():
        line = f"{name:<10} {value:>13,}"
        if stored:
            off = abs(value - stored[name])
            within = off <= max(BOUND * stored[name], SMALLEST)
            good = good and within
            line += f"  {value / max(stored[name], 1):7.4f} of {stored[name]:,}"
            line += "" if within else "  CHANGED"
        print(line)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--level", default="avx2", choices=["scalar", "avx2"])
    parser.add_argument("--quant", default="none,w8a16,w8a8", help="modes, joined by commas")
    parser.add_argument("--update", action="store_true", help="store what was counted")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed")
    all_stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    good = True
    for quant in options.quant.split(","):
        key = f"{compiler(options.build)}, {options.level}" + ("" if quant == "none" else f", {quant}")
        counts = measure(options.build / "difflet", options.level, quant)
        stored = None if options.update else all_stored.get(key)
        print(f"{key}, a step of the demo's transformer"
              + ("" if stored or options.update else ": no stored number"))
        good = report(counts, stored) and good
        if options.update:
            all_stored[key] = counts
    if options.update:
        STORED.write_text(json.dumps(all_stored, indent=2) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
