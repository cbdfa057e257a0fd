#!/usr/bin/env python3
"""Engine of the benchmark: diffusers and transformers on PyTorch, through their documented interface.

Options: compile (no, blocks), channels_last (false, true; of the VAE), malloc (default, huge: glibc's allocator
on huge pages). With compile=blocks each repeated block is compiled by itself; the `compile` span is a first
request, of one step, in which that happens.

quant (of the scenario): torchao's int8 weights (w8a16), or those with activations quantised to int8 for each row
as they come (w8a8), of the linears in the repeated blocks but not those of the modulation.
"""
import sys
from pathlib import Path

# Engines are called as their packages are: not this folder, but the one above is where modules are looked up.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from adapters import protocol  # noqa: E402

OPTIONS = {"compile", "channels_last", "malloc"}
STAGES = {"transformer": "denoise", "vae": "decode", "text_encoder": "encode", "text_encoder_2": "encode"}


def versions(quant):
    import diffusers
    import torch
    import transformers

    more = {}
    if quant != "none":
        import torchao

        more["torchao"] = torchao.__version__
    return {
        **more,
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "diffusers": diffusers.__version__,
        "transformers": transformers.__version__,
    }


class ComponentEngine:
    """One component on the inputs of the scenario."""

    def __init__(self, scenario, options, events):
        import torch
        from adapters import _torch_components as components

        self._torch, self._components = torch, components
        name, dtype = scenario["component"], components.DTYPES[options["dtype"]]
        with events.span("load"):
            self._component = components.load_component(scenario["model"], name, dtype)
            components.quantize(name, self._component.module, options["quant"])
            self._inputs = components.load_inputs(scenario["inputs"], dtype)
        if name == "vae" and options["channels_last"]:
            to_channels_last(self._component.module)
            self._inputs["z"] = self._inputs["z"].contiguous(memory_format=torch.channels_last)
        self._outputs = {}
        if options["compile"] == "blocks":
            for block in components.repeated_blocks(name, self._component.module):
                block.compile()
            with events.span("compile"):
                self._forward()

    def _forward(self):
        with self._torch.inference_mode():
            return self._component(**self._inputs)

    def run(self, events):
        with events.span(STAGES[self._component.name]):
            results = self._forward()
        names = self._components.OUTPUTS[self._component.name]
        self._outputs = dict(zip(names, results))
        for name, value in self._outputs.items():
            self._components.report(events, name, value)

    def outputs(self):
        return self._components.as_bytes(self._outputs)


class PipelineEngine:
    """The whole FluxPipeline, its three stages called one after another."""

    def __init__(self, scenario, options, events):
        import torch
        from adapters import _torch_components as components
        from diffusers import FluxPipeline

        self._torch, self._components, self._scenario = torch, components, scenario
        with events.span("load"):
            self._pipe = FluxPipeline.from_pretrained(
                scenario["model"], torch_dtype=components.DTYPES[options["dtype"]])
            for name in ("transformer", "text_encoder_2"):
                components.quantize(name, getattr(self._pipe, name), options["quant"])
        self._pipe.set_progress_bar_config(disable=True)
        if options["channels_last"]:
            to_channels_last(self._pipe.vae)
        self._images = None
        if options["compile"] == "blocks":
            for name in components.CLASSES:
                for block in components.repeated_blocks(name, getattr(self._pipe, name)):
                    block.compile()
            with events.span("compile"), torch.inference_mode():
                self._decode(self._denoise(*self._encode(), 1, None))

    def _encode(self):
        prompt = self._scenario["prompt"]
        prompt_embeds, pooled, _ = self._pipe.encode_prompt(
            prompt=prompt, prompt_2=prompt, num_images_per_prompt=1,
            max_sequence_length=self._scenario["max_sequence_length"])
        return prompt_embeds, pooled

    def _denoise(self, prompt_embeds, pooled, steps, events):
        def on_step_end(_pipe, index, _timestep, tensors):
            if events:
                events.step(index)
            return tensors

        scenario = self._scenario
        return self._pipe(
            prompt_embeds=prompt_embeds, pooled_prompt_embeds=pooled,
            width=scenario["width"], height=scenario["height"], num_inference_steps=steps,
            guidance_scale=scenario["guidance"], num_images_per_prompt=scenario["n"],
            generator=self._torch.Generator("cpu").manual_seed(scenario["seed"]),
            max_sequence_length=scenario["max_sequence_length"],
            output_type="latent", callback_on_step_end=on_step_end).images

    def _decode(self, latents):
        pipe = self._pipe
        latents = pipe._unpack_latents(  # as the guide on distributed inference does it
            latents, self._scenario["height"], self._scenario["width"], pipe.vae_scale_factor)
        latents = latents / pipe.vae.config.scaling_factor + pipe.vae.config.shift_factor
        pictures = pipe.vae.decode(latents, return_dict=False)[0]
        return pipe.image_processor.postprocess(pictures, output_type="pt").permute(0, 2, 3, 1)

    def run(self, events):
        with self._torch.inference_mode():
            with events.span("encode"):
                embeds = self._encode()
            with events.span("denoise"):
                latents = self._denoise(*embeds, self._scenario["steps"], events)
            with events.span("decode"):
                self._images = self._decode(latents)
        self._components.report(events, "images", self._images)

    def outputs(self):
        return self._components.as_bytes({"images": self._images})


def to_channels_last(vae):
    import torch

    vae.to(memory_format=torch.channels_last)


def make_engine(scenario, events):
    given = scenario.get("options", {})
    protocol.known_options(given, OPTIONS)
    options = {
        "dtype": protocol.option(scenario, "dtype", ["bf16", "f32"]),
        "quant": protocol.option(scenario, "quant", ["none", "w8a16", "w8a8"]),
        "compile": protocol.option(given, "compile", ["no", "blocks"]),
        "channels_last": protocol.option(given, "channels_last", [False, True]),
        "malloc": protocol.option(given, "malloc", ["default", "huge"]),
    }
    if options["quant"] != "none" and scenario.get("component") == "vae":
        raise protocol.Unsupported("the VAE's blocks are convolutions: no linears to quantise")
    import torch

    torch.set_num_threads(scenario["threads"])
    options["cpu_capability"] = torch.backends.cpu.get_cpu_capability()
    events.hello("diffusers", versions(options["quant"]), options)
    kind = ComponentEngine if "component" in scenario else PipelineEngine
    return kind(scenario, options, events)


if __name__ == "__main__":
    sys.exit(protocol.main(make_engine))
