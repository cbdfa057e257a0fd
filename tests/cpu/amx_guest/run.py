#!/usr/bin/env python3
"""Runs the kernels of the level amx, as the product has them, on an emulated processor with AMX.

The guest is a boot sector and a program without an operating system, on Bochs 3 or later with its model
sapphire_rapids. Its results have to have the same bits as those over emulated tiles. Exit status 77: skipped.
"""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

CYLINDER = 16 * 63 * 512
SECTORS_AT = 508  # in boot.S
# What Bochs got wrong in August 2026, by the line that shows it: what it is, and which lines need it.
FLAWS = {"rounding": ("half of the result of VCVTNE2PS2BF16 is something else", "attention"),
         "bytes": ("TDPBSSD takes bytes as unsigned", "w8a8")}
CONFIG = """megs: 256
romimage: file={share}/BIOS-bochs-latest
vgaromimage: file={share}/VGABIOS-lgpl-latest.bin
cpu: model=sapphire_rapids, reset_on_triple_fault=0
clock: sync=none
display_library: nogui
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=disk, path={disk}, mode=flat, cylinders=20, heads=16, spt=63, translation=none
boot: disk
port_e9_hack: enabled=1
log: {folder}/log.txt
panic: action=fatal
"""


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def disk_image(boot, program):
    sectors = (len(program) + 511) // 512
    image = boot[:SECTORS_AT] + sectors.to_bytes(2, "little") + boot[SECTORS_AT + 2 :] + program
    return image.ljust(20 * CYLINDER, b"\0")


def run_guest(args, folder):
    disk = folder / "disk.img"
    disk.write_bytes(disk_image(args.boot.read_bytes(), args.program.read_bytes()))
    config = folder / "bochsrc"
    config.write_text(CONFIG.format(share=args.share, disk=disk, folder=folder))
    try:
        done = subprocess.run([args.bochs, "-q", "-f", config], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=args.timeout, check=False)
        output = done.stdout
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"").decode(errors="replace")
        print(f"the guest did not end within {args.timeout} s")
    return output.splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bochs", required=True)
    parser.add_argument("--share", type=Path, required=True, help="folder of Bochs' BIOS images")
    parser.add_argument("--boot", type=Path, required=True)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--expected", type=Path, required=True, help="the program that prints what is expected")
    parser.add_argument("--timeout", type=int, default=300)
    args = parser.parse_args()
    models = subprocess.run([args.bochs, "--help", "cpu"], capture_output=True, text=True, check=False)
    if "sapphire_rapids" not in models.stdout + models.stderr:
        skip(f"{args.bochs} has no processor with AMX (Bochs 3, configured with --enable-amx --enable-evex)")
    expected = subprocess.run([args.expected], capture_output=True, text=True, check=False)
    if expected.returncode != 0:
        skip(expected.stdout.strip())
    with tempfile.TemporaryDirectory() as folder:
        got = run_guest(args, Path(folder))
    wanted = expected.stdout.splitlines()
    wrong = [line for line in wanted if line not in got]
    flawed = []
    for name, (flaw, needs_it) in FLAWS.items():
        if "end" in got and any(line.startswith(name) for line in wrong):
            flawed.append(f"{needs_it} cannot be judged: in this Bochs {flaw}")
            wrong = [line for line in wrong if not line.startswith((name, needs_it))]
    for line in wrong:
        print("expected, not found:", line)
    if wrong:
        print("the guest printed:", *got, sep="\n  ")
        sys.exit(1)
    if flawed:
        skip("; ".join(flawed) + "; the rest has the expected bits")
    print(f"{len(wanted) - 1} results have the expected bits")


if __name__ == "__main__":
    main()
