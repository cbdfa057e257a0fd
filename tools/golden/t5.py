"""T5EncoderModel: gated and plain feed-forward, inner width != d_model, both embedding names."""

import torch
from safetensors.torch import load_file, save_file
from transformers import T5Config, T5EncoderModel

from tools.golden.common import BF16, F32, case_dir, draw_ids, fill, record


def make_all():
    # v1.1 as FLUX uses it; longer than relative_attention_max_distance, so the last bucket is used.
    make("gated_gelu", dict(vocab_size=100, d_model=32, d_kv=8, num_heads=4, d_ff=64, num_layers=2,
                            feed_forward_proj="gated-gelu"),
         draw_ids((1, 150), 0, 100, "t5-gated_gelu"))
    # v1.0 feed-forward, odd sizes, few buckets; both `shared` and `encoder.embed_tokens` stored.
    make("relu", dict(vocab_size=103, d_model=24, d_kv=8, num_heads=4, d_ff=37, num_layers=3,
                      feed_forward_proj="relu", relative_attention_num_buckets=8,
                      relative_attention_max_distance=20),
         draw_ids((2, 33), 0, 103, "t5-relu"), embedding="both",
         hooks=[f"encoder.block.{i}" for i in range(3)] + ["encoder.final_layer_norm"])
    # Only `encoder.embed_tokens` stored; one head; sharded.
    make("embed_tokens", dict(vocab_size=64, d_model=40, d_kv=16, num_heads=1, d_ff=50,
                              num_layers=2, feed_forward_proj="gated-gelu",
                              layer_norm_epsilon=1e-5),
         draw_ids((2, 20), 0, 64, "t5-embed_tokens"), embedding="encoder", shard="20KB")
    make("wide_inner_bf16", dict(vocab_size=80, d_model=32, d_kv=12, num_heads=5, d_ff=90,
                                 num_layers=2, feed_forward_proj="gated-gelu",
                                 relative_attention_num_buckets=16,
                                 relative_attention_max_distance=64),
         draw_ids((1, 77), 0, 80, "t5-wide_inner"), store=BF16)


def make(name, config, ids, store=F32, embedding="shared", shard="5GB", hooks=()):
    path = case_dir("t5_encoder", name)
    # Scores are not divided by sqrt(d_kv): trained weights carry that factor, so must these.
    gains = [(r"SelfAttention\.q\.", config["d_kv"] ** -0.5), (r"SelfAttention\.[qk]\.", 1.3)]
    model = fill(T5EncoderModel(T5Config(**config)), f"t5-{name}", gains).to(store)
    model.save_pretrained(path, max_shard_size=shard)
    if embedding != "shared":
        rename(path, embedding)

    def load():
        return T5EncoderModel.from_pretrained(path, dtype=F32)

    reloaded = load().state_dict()
    assert all(torch.equal(v.to(F32), reloaded[k]) for k, v in model.state_dict().items())

    def call(model, inputs):
        return {"last_hidden_state": model(input_ids=inputs["input_ids"].long()).last_hidden_state}

    record(path, load, call, {"input_ids": ids},
           {"class": "T5EncoderModel", "stored": str(store)[6:], "variant": None}, hooks)


def rename(path, embedding):
    """Stores the embedding table under `encoder.embed_tokens.weight`, alone or as well."""
    for file in sorted(path.glob("model*.safetensors")):
        tensors = load_file(file)
        if "shared.weight" not in tensors:
            continue
        table = tensors["shared.weight"] if embedding == "both" else tensors.pop("shared.weight")
        tensors["encoder.embed_tokens.weight"] = table.clone()
        save_file(tensors, file, metadata={"format": "pt"})
    index = path / "model.safetensors.index.json"
    if index.exists():
        assert embedding == "encoder"
        text = index.read_text().replace('"shared.weight"', '"encoder.embed_tokens.weight"')
        index.write_text(text)
