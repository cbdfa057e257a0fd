"""CLIPTextModel: both activations, both pooling rules, both naming schemes, three stored dtypes."""

import torch
from safetensors.torch import load_file, save_file
from transformers import CLIPTextConfig, CLIPTextModel

from tools.golden.common import BF16, F32, case_dir, draw_ids, fill, record, write_json

GAINS = [(r"position_embedding", 0.5), (r"token_embedding", 0.7), (r"q_proj|k_proj", 1.5)]


def make_all():
    # Real end id: the pooled row is the first `eos_token_id`. Row 0 has two of them, row 1 ends
    # late, row 2 has none (the original then pools row 0 of the sequence).
    config = dict(vocab_size=99, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                  num_attention_heads=4, max_position_embeddings=77, hidden_act="quick_gelu",
                  bos_token_id=96, eos_token_id=97, pad_token_id=98)
    ids = draw_ids((3, 77), 0, 96, "clip-quick_gelu")
    ids[:, 0] = 96
    ids[0, 9] = ids[0, 30] = 97
    ids[0, 31:] = 98
    ids[1, 76] = 97
    make("quick_gelu", config, ids,
         hooks=["encoder.layers.0", "encoder.layers.1", "final_layer_norm"])

    # Legacy end id 2: the pooled row is the first largest id. Names and config as transformers 4
    # wrote them, with the position_ids buffer of old checkpoints; shorter than the position table.
    config = dict(vocab_size=120, hidden_size=24, intermediate_size=37, num_hidden_layers=3,
                  num_attention_heads=3, max_position_embeddings=40, hidden_act="gelu",
                  bos_token_id=0, eos_token_id=2, pad_token_id=1, layer_norm_eps=1e-6)
    ids = draw_ids((2, 23), 3, 118, "clip-gelu_legacy")
    ids[:, 0] = 118
    ids[0, 7:] = 119
    ids[1, 20:] = 119
    ids[1, 5] = 2
    make("gelu_legacy", config, ids, legacy_names=True)

    config = dict(vocab_size=64, hidden_size=64, intermediate_size=80, num_hidden_layers=1,
                  num_attention_heads=1, max_position_embeddings=16, hidden_act="quick_gelu",
                  bos_token_id=62, eos_token_id=63, pad_token_id=63)
    ids = draw_ids((1, 16), 0, 62, "clip-one_head")
    ids[0, 0], ids[0, 11:] = 62, 63
    make("one_head_f16", config, ids, store=torch.float16, variant="fp16")

    config = dict(vocab_size=64, hidden_size=48, intermediate_size=96, num_hidden_layers=2,
                  num_attention_heads=6, max_position_embeddings=20, hidden_act="gelu",
                  bos_token_id=0, eos_token_id=2, pad_token_id=1)
    ids = draw_ids((2, 20), 0, 64, "clip-sharded")
    make("sharded_bf16", config, ids, store=BF16, shard="40KB")


def make(name, config, ids, store=F32, variant=None, shard="5GB", legacy_names=False, hooks=()):
    path = case_dir("clip_text", name)
    model = fill(CLIPTextModel(CLIPTextConfig(projection_dim=config["hidden_size"], **config)),
                 f"clip-{name}", GAINS)
    model.to(store).save_pretrained(path, variant=variant, max_shard_size=shard)
    if legacy_names:
        rename(path, config)

    def load():
        return CLIPTextModel.from_pretrained(path, dtype=F32, variant=variant)

    reloaded = load().state_dict()
    assert all(torch.equal(v.to(F32), reloaded[k]) for k, v in model.state_dict().items())

    def call(model, inputs):
        out = model(input_ids=inputs["input_ids"].long())
        return {"last_hidden_state": out.last_hidden_state, "pooler_output": out.pooler_output}

    record(path, load, call, {"input_ids": ids},
           {"class": "CLIPTextModel", "stored": str(store)[6:], "variant": variant}, hooks)


def rename(path, config):
    tensors = load_file(path / "model.safetensors")
    assert not any(k.startswith("text_model.") for k in tensors)
    tensors = {f"text_model.{k}": v for k, v in tensors.items()}
    positions = torch.arange(config["max_position_embeddings"], dtype=torch.int64)[None]
    tensors["text_model.embeddings.position_ids"] = positions
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    write_json(path / "config.json", {
        "architectures": ["CLIPTextModel"], "attention_dropout": 0.0, "dropout": 0.0,
        "initializer_factor": 1.0, "initializer_range": 0.02, "layer_norm_eps": 1e-05,
        "model_type": "clip_text_model", "projection_dim": config["hidden_size"],
        "torch_dtype": "float32", "transformers_version": "4.43.3", **config})
