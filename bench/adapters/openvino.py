#!/usr/bin/env python3
"""Engine of the benchmark: OpenVINO on a component that is traced from PyTorch.

quant (of the scenario): w8a8 is NNCF's post-training quantization, calibrated on the scenario's inputs, w8a16 its
weight compression to symmetric int8; what they make, in a process of its own since that takes up to nine times the
weights' bytes, stays in the work folder for the next time. The `compile` span is the conversion, the quantization and
the compilation for the CPU. bf16 and f32 are hints for
the inference precision; where this CPU has no bf16 arithmetic, OpenVINO's answer is reported as it is.
"""
import hashlib
import json
import subprocess
import sys
from pathlib import Path

# Engines are called as their packages are: not this folder, but the one above is where modules are looked up.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from adapters import protocol  # noqa: E402

STAGES = {"transformer": "denoise", "vae": "decode", "text_encoder": "encode", "text_encoder_2": "encode"}


def positional(component, names):
    """A module that takes its inputs one after another: what is traced."""
    import torch

    class Positional(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.component = component

        def forward(self, *values):
            return self.component(**dict(zip(names, values)))

    return Positional().eval()


def convert(scenario):
    """The component as a model of OpenVINO with the scenario's shapes, its values in f32."""
    import openvino
    import torch
    from adapters import _torch_components as components

    component = components.load_component(scenario["model"], scenario["component"], torch.float32)
    inputs = components.load_inputs(scenario["inputs"], torch.float32)
    values = list(inputs.values())
    with torch.inference_mode():
        model = openvino.convert_model(positional(component, list(inputs)), example_input=tuple(values))
    model.reshape({port: list(value.shape) for port, value in zip(model.inputs, values)})
    return model, [value.numpy() for value in values]


def quantized(scenario, path):
    """Writes the quantised model of the scenario to `path`."""
    import nncf
    import openvino

    model, values = convert(scenario)
    if scenario["quant"] == "w8a16":
        model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_SYM)
    else:
        kind = None if scenario["component"] == "vae" else nncf.ModelType.TRANSFORMER
        model = nncf.quantize(model, nncf.Dataset([values]), model_type=kind, subset_size=1)
    partial = path.with_name("partial-" + path.name)
    openvino.save_model(model, partial, compress_to_fp16=False)
    partial.with_suffix(".bin").replace(path.with_suffix(".bin"))
    partial.replace(path)


def stored_path(scenario, versions):
    """Where the quantised model of this scenario is kept: another name for other weights, shapes or versions."""
    folder = Path(scenario["model"]) / scenario["component"]
    files = sorted((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in folder.iterdir())
    key = [str(folder), files, versions, [scenario[name] for name in ("component", "quant")]]
    digest = hashlib.sha256(json.dumps(key).encode() + Path(scenario["inputs"]).read_bytes()).hexdigest()[:16]
    return Path(scenario["work"]) / f"{scenario['component']}-{scenario['quant']}-{digest}.xml"


def stored_model(scenario, versions):
    import openvino

    path = stored_path(scenario, versions)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        maker = subprocess.run([sys.executable, __file__, "--quantise", path], input=json.dumps(scenario), text=True,
                               check=False)
        if maker.returncode != 0:
            raise protocol.Failed(f"the quantisation ended with {maker.returncode}")
    return openvino.Core().read_model(path)


class Engine:
    def __init__(self, scenario, versions, events):
        import openvino
        import torch
        from adapters import _torch_components as components

        self._torch, self._components, self._name = torch, components, scenario["component"]
        with events.span("compile"):
            if scenario.get("quant", "none") == "none":
                model, self._values = convert(scenario)
            else:
                model = stored_model(scenario, versions)
                inputs = components.load_inputs(scenario["inputs"], torch.float32)
                self._values = [value.numpy() for value in inputs.values()]
            self._compiled = openvino.Core().compile_model(model, "CPU", {
                "INFERENCE_PRECISION_HINT": scenario["dtype"],
                "INFERENCE_NUM_THREADS": scenario["threads"],
                "PERFORMANCE_HINT": "LATENCY",
                "NUM_STREAMS": 1,
            })
        self._request = self._compiled.create_infer_request()
        self._outputs = {}

    def run(self, events):
        with events.span(STAGES[self._name]):
            results = self._request.infer(self._values)
        names = self._components.OUTPUTS[self._name]
        self._outputs = {name: self._torch.from_numpy(results[i].copy()) for i, name in enumerate(names)}
        for name, value in self._outputs.items():
            self._components.report(events, name, value)

    def outputs(self):
        return self._components.as_bytes(self._outputs)


def make_engine(scenario, events):
    options = scenario.get("options", {})
    protocol.known_options(options, set())
    quant = protocol.option(scenario, "quant", ["none", "w8a16", "w8a8"])
    protocol.option(scenario, "dtype", ["bf16", "f32"])
    import openvino
    import torch

    torch.set_num_threads(scenario["threads"])
    versions = {"python": sys.version.split()[0], "openvino": openvino.__version__, "torch": torch.__version__}
    if quant != "none":
        import nncf

        versions["nncf"] = nncf.__version__
    capabilities = openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if "component" not in scenario:
        raise protocol.Unsupported("components only: no whole pipeline")
    if scenario["dtype"] == "bf16" and quant != "w8a8" and "BF16" not in capabilities:
        raise protocol.Unsupported(f"OpenVINO has no bf16 on this CPU: {', '.join(capabilities)}")
    events.hello("openvino", versions, {"quant": quant, "capabilities": list(capabilities)})
    return Engine(scenario, versions, events)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--quantise"]:
        quantized(json.load(sys.stdin), Path(sys.argv[2]))
        sys.exit(0)
    sys.exit(protocol.main(make_engine))
