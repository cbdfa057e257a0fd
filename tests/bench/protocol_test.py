"""The Python side of the benchmark protocol, with an engine that computes nothing and the standard library alone."""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"

ENGINE = """
import os, struct, sys
sys.path.insert(0, {bench!r})
from adapters import protocol

class Engine:
    def run(self, events):
        print("a library talks")
        os.write(1, b"and so does a child\\n")
        with events.span("denoise"):
            events.step(0)
        events.output("sample", [2], True, 0.5, float("inf"), 1)

    def outputs(self):
        return {{"sample": ((2,), struct.pack("<2f", 0.5, 1.5))}}

def make_engine(scenario, events):
    mode = scenario.get("mode")
    if mode == "absent":
        import a_module_that_nobody_has
    if mode == "unsupported":
        raise protocol.Unsupported("no such instruction")
    protocol.known_options(scenario["options"], {{"malloc"}})
    malloc = protocol.option(scenario["options"], "malloc", ["default", "huge"])
    events.hello("fake", {{"x": "1"}}, {{"malloc": malloc, "env": os.environ.get("GLIBC_TUNABLES")}})
    return Engine()

sys.exit(protocol.main(make_engine))
"""


class ProtocolTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = Path(self._folder.name)
        (self.folder / "engine.py").write_text(ENGINE.format(bench=str(BENCH)))

    def talk(self, commands, scenario=None):
        """(exit status, events, stderr) of the fake engine."""
        path = self.folder / "scenario.json"
        path.write_text(json.dumps({"options": {}, **(scenario or {})}))
        environment = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
        process = subprocess.run(
            [sys.executable, str(self.folder / "engine.py"), "--scenario", str(path)], env=environment,
            input="".join(json.dumps(command) + "\n" for command in commands),
            capture_output=True, text=True, timeout=60)
        return process.returncode, [json.loads(line) for line in process.stdout.splitlines()], process.stderr

    def test_a_request(self):
        saved = self.folder / "x.safetensors"
        status, events, err = self.talk(
            [{"do": "run"}, {"do": "save", "path": str(saved)}, {"do": "run"}, {"do": "exit"}])
        self.assertEqual(status, 0, err)
        kinds = [(event["event"], event.get("name")) for event in events]
        run = [("begin", "run"), ("begin", "denoise"), ("step", None), ("end", "denoise"),
               ("output", "sample"), ("end", "run")]
        self.assertEqual(kinds, [("hello", None), ("ready", None), *run, ("saved", None), *run])
        output = next(event for event in events if event["event"] == "output")
        self.assertEqual((output["min"], output["max"], output["mean"]), (0.5, None, 1.0))
        times = [event["cpu_s"] for event in events if "cpu_s" in event]
        self.assertEqual(times, sorted(times))
        clocks = [event["clock_s"] for event in events if "cpu_s" in event]
        self.assertEqual(clocks, sorted(clocks))
        self.assertIn("a library talks", err)
        self.assertIn("and so does a child", err)

        data = saved.read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + size])
        self.assertEqual(header, {"sample": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})
        self.assertEqual(struct.unpack("<2f", data[8 + size:]), (0.5, 1.5))
        self.assertEqual(size % 8, 0)

    def test_the_end_of_input_ends_it(self):
        status, events, err = self.talk([])
        self.assertEqual(status, 0, err)
        self.assertEqual(events[-1], {"event": "ready"})

    def test_huge_pages_start_the_program_again(self):
        status, events, err = self.talk([], {"options": {"malloc": "huge"}})
        self.assertEqual(status, 0, err)
        self.assertIn("glibc.malloc.hugetlb=1", events[0]["options"]["env"])

    def test_errors(self):
        for scenario, commands, kind, message in [
            ({"mode": "absent"}, [], "unsupported", "not installed"),
            ({"mode": "unsupported"}, [], "unsupported", "no such instruction"),
            ({"options": {"malloc": "small"}}, [], "failed", "expected one of default, huge"),
            ({"options": {"mallok": "huge"}}, [], "failed", "unknown option 'mallok'"),
            ({}, [{"do": "dance"}], "failed", "unknown command"),
        ]:
            with self.subTest(message=message):
                status, events, err = self.talk(commands, scenario)
                self.assertNotEqual(status, 0, err)
                self.assertEqual((events[-1]["event"], events[-1]["kind"]), ("error", kind))
                self.assertIn(message, events[-1]["message"])


if __name__ == "__main__":
    unittest.main()
