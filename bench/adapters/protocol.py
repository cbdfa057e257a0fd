"""The engine's side of the benchmark protocol: commands in on stdin, events out on stdout, one JSON
object a line.

The harness stamps every line with its own clock, which decides how long a request took. Beside that an event
says when it happened by the machine's CLOCK_MONOTONIC (`clock_s`, which may be left out), because lines that are read
together have no time between them, and the CPU time of the engine's process tree so far (`cpu_s`). Everything that is printed past
this module (by a library, by a child) goes to stderr.

`ready` may carry `memory`, an object of planned bytes: weight_bytes, activation_bytes, scratch_bytes.

An adapter is a class with `load()` and `run()` handed to `main`; needs nothing but the standard library.
"""
import argparse
import contextlib
import json
import math
import os
import struct
import sys
import time
from pathlib import Path

# glibc: big blocks stay in the heap, which is backed by transparent huge pages. It reads this at the start
# of a process, hence the re-execution in `main`.
HUGE_PAGES = (
    "glibc.malloc.mmap_threshold=8589934592:glibc.malloc.trim_threshold=17179869184:glibc.malloc.hugetlb=1"
)


class Unsupported(Exception):
    """This engine cannot do what the scenario asks for on this machine: not available, not a failure."""


class Failed(Exception):
    """The engine should do it and did not."""


def cpu_seconds():
    """User and system time of this process, of its children that ended and of its live descendants."""
    times = os.times()  # in ticks of 10 ms; this process's own time is known finer
    total = time.process_time() + times.children_user + times.children_system
    tick = os.sysconf("SC_CLK_TCK")
    pending = _children(os.getpid())
    while pending:
        pid = pending.pop()
        try:
            # The name, in brackets, may hold anything: fields are counted from its end.
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue  # it ended: its parent's time for dead children has it
        total += sum(int(field) for field in fields[11:15]) / tick
        pending += _children(pid)
    return total


def _children(pid):
    children = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children += [int(child) for child in task.read_text().split()]
    return children


class Events:
    """Writes events. Created once, before libraries are imported: it takes stdout away from them."""

    def __init__(self, stream=None):
        if stream is None:
            sys.stdout.flush()
            stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
            os.dup2(2, 1)
            os.set_inheritable(stream.fileno(), False)
        self._stream = stream

    def send(self, event, **fields):
        self._stream.write(json.dumps({"event": event, **fields}, allow_nan=False) + "\n")
        self._stream.flush()

    def _timed(self, event, **fields):
        self.send(event, **fields, cpu_s=cpu_seconds(), clock_s=time.monotonic())

    def hello(self, engine, versions, options):
        self.send("hello", engine=engine, versions=versions, options=options)

    def begin(self, name):
        self._timed("begin", name=name)

    def end(self, name):
        self._timed("end", name=name)

    @contextlib.contextmanager
    def span(self, name):
        """`begin` and `end` around compile, load, encode, denoise, decode or run; pairs nest."""
        self.begin(name)
        yield
        self.end(name)

    def step(self, index):
        """One denoising step is done."""
        self._timed("step", index=index)

    def output(self, name, shape, finite, minimum, maximum, mean):
        """What a request made; `minimum`, `maximum` and `mean` are null where not all is finite."""
        numbers = [float(n) if finite and math.isfinite(n) else None for n in (minimum, maximum, mean)]
        self.send("output", name=name, shape=list(shape), finite=bool(finite),
                  min=numbers[0], max=numbers[1], mean=numbers[2])


def option(options, name, choices):
    """options[name], which must be one of `choices`; the first choice where it is absent."""
    value = options.get(name, choices[0])
    if value not in choices:
        known = ", ".join(str(choice) for choice in choices)
        raise Failed(f"option {name}: expected one of {known}, found {value!r}")
    return value


def known_options(options, names):
    """Refuses an option that the adapter does not have."""
    for name in options:
        if name not in names:
            raise Failed(f"unknown option {name!r}: expected one of {', '.join(sorted(names)) or 'nothing'}")


def save_safetensors(path, tensors):
    """Writes {name: (shape, bytes of little-endian f32)}; the file appears complete or not at all."""
    header, offset = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    partial = Path(f"{path}.part")
    with partial.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, data in tensors.values():
            file.write(data)
    partial.replace(path)


def serve(engine, events, commands):
    """Answers the commands of the harness until `exit` or the end of the stream."""
    for line in commands:
        if not line.strip():
            continue
        command = json.loads(line)
        what = command.get("do")
        if what == "run":
            with events.span("run"):
                engine.run(events)
        elif what == "save":
            save_safetensors(command["path"], engine.outputs())
            events.send("saved")
        elif what == "exit":
            return
        else:
            raise Failed(f"unknown command: {line.strip()}")


def use_huge_pages():
    """Starts this program again with glibc's allocator on huge pages, once."""
    if os.environ.get("GLIBC_TUNABLES") != HUGE_PAGES:
        os.environ["GLIBC_TUNABLES"] = HUGE_PAGES
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def main(make_engine, commands=None, events=None):
    """Runs an adapter: `make_engine(scenario, events)` sends hello, loads, and returns an object with
    `run(events)` and `outputs()` (of the last run, for `save_safetensors`). Returns the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenario", required=True, help="the resolved scenario, a JSON file")
    arguments = parser.parse_args()
    scenario = json.loads(Path(arguments.scenario).read_text(encoding="utf-8"))
    if scenario.get("options", {}).get("malloc") == "huge":
        use_huge_pages()
    events = events or Events()
    try:
        engine = make_engine(scenario, events)
        events.send("ready")
        serve(engine, events, commands or sys.stdin)
    except Unsupported as error:
        events.send("error", message=str(error), kind="unsupported")
        return 1
    except ImportError as error:
        events.send("error", message=f"not installed: {error}", kind="unsupported")
        return 1
    except Exception as error:  # noqa: BLE001: whatever a library throws is the harness's to show
        events.send("error", message=f"{type(error).__name__}: {error}", kind="failed")
        return 1
    return 0
