"""Makes tests/golden/tokenizers: small trained tokenizers, text, and the ids of the original libraries.

Usage: python tools/golden/tokenizers.py <output folder>
Versions: tools/golden/requirements.txt (transformers 5.24.0, tokenizers 0.23.3, sentencepiece 0.2.3).
The committed files are never made again to let a test pass. The BPE trainer breaks ties by hash order, so another run
gives another vocabulary, merges and ids for CLIP; the rest comes out the same.
"""

import io
import json
import pathlib
import re
import sys
import tempfile

# This file has the name of the package that it uses.
sys.path[:] = [p for p in sys.path if pathlib.Path(p or ".").resolve() != pathlib.Path(__file__).resolve().parent]

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import CLIPTokenizer, T5Tokenizer
from sentencepiece import sentencepiece_model_pb2 as spm_pb2

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tokenizer_text

SPLIT = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
EXTRA = [f"<extra_id_{i}>" for i in range(100)]


def write_json(path, value, indent=None):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=indent) + "\n", encoding="utf-8")


def corpus():
    lines = [s for s in tokenizer_text.SENTENCES for _ in range(4)]
    lines += [s.lower() for s in tokenizer_text.SENTENCES] + tokenizer_text.WORDS
    return lines


def clip_model(out):
    """CLIP layout of ids: bytes, bytes</w>, merges, then the two special tokens."""
    tok = Tokenizer(models.BPE(end_of_word_suffix="</w>", unk_token="<|endoftext|>", continuing_subword_prefix=""))
    tok.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(SPLIT), "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=1500, initial_alphabet=alphabet, end_of_word_suffix="</w>", show_progress=False)
    tok.train_from_iterator(corpus(), trainer)
    model = json.loads(tok.to_str())["model"]
    vocab = dict(sorted(model["vocab"].items(), key=lambda item: item[1]))
    for special in ("<|startoftext|>", "<|endoftext|>"):
        vocab[special] = len(vocab)
    files = out / "clip_files"
    files.mkdir(parents=True, exist_ok=True)
    write_json(files / "vocab.json", vocab)
    merges = "".join(f"{a} {b}\n" for a, b in model["merges"])
    (files / "merges.txt").write_text("#version: 0.2\n" + merges, encoding="utf-8")
    start, end = len(vocab) - 2, len(vocab) - 1
    flags = {"lstrip": False, "rstrip": False, "single_word": False, "special": True}
    config = {  # as published for FLUX.1
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(start): {"content": "<|startoftext|>", "normalized": True, **flags},
            str(end): {"content": "<|endoftext|>", "normalized": False, **flags},
        },
        "bos_token": "<|startoftext|>", "clean_up_tokenization_spaces": True, "do_lower_case": True,
        "eos_token": "<|endoftext|>", "errors": "replace", "model_max_length": 77, "pad_token": "<|endoftext|>",
        "tokenizer_class": "CLIPTokenizer", "unk_token": "<|endoftext|>",
    }  # fmt: skip
    write_json(files / "tokenizer_config.json", config, 2)
    CLIPTokenizer.from_pretrained(files).save_pretrained(out / "clip_json")


def train_spiece(out):
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_writer=buffer, model_type="unigram", vocab_size=1100, pad_id=0, eos_id=1,
        unk_id=2, bos_id=-1, normalization_rule_name="nmt_nfkc", character_coverage=0.985, num_threads=1,
        minloglevel=2, hard_vocab_limit=False,
    )  # fmt: skip
    folder = out / "t5_spiece"
    folder.mkdir(parents=True, exist_ok=True)
    proto = spm_pb2.ModelProto()
    proto.ParseFromString(buffer.getvalue())
    proto.trainer_spec.ClearField("input")
    (folder / "spiece.model").write_bytes(proto.SerializeToString())
    write_json(folder / "tokenizer_config.json", t5_config(), 2)
    return proto


def t5_config():
    return {
        "additional_special_tokens": EXTRA, "eos_token": "</s>", "extra_ids": 100, "model_max_length": 512, "pad_token": "<pad>",
        "tokenizer_class": "T5Tokenizer", "unk_token": "<unk>",
    }  # fmt: skip


def t5_vocab(proto):
    vocab = [(p.piece, p.score) for p in proto.pieces]
    return vocab + [(t, 0.0) for t in reversed(EXTRA)]


def t5_layout1(out, proto):
    """As the published tokenizer.json of T5 v1.1 and FLUX.1 (converted by transformers 4)."""
    vocab = t5_vocab(proto)
    tok = Tokenizer(models.Unigram(vocab, unk_id=2, byte_fallback=False))
    tok.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap),
            normalizers.Strip(left=False, right=True),
            normalizers.Replace(Regex(" {2,}"), "▁"),
        ]
    )
    tok.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    tok.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    tok.post_processor = processors.TemplateProcessing(
        single=["$A", "</s>"], pair=["$A", "</s>", "$B", "</s>"], special_tokens=[("</s>", 1)]
    )
    tok.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tok.add_special_tokens([AddedToken(t, lstrip=True, rstrip=True, special=True) for t in reversed(EXTRA)])
    folder = out / "t5_layout1"
    folder.mkdir(parents=True, exist_ok=True)
    tok.save(str(folder / "tokenizer.json"), pretty=False)
    config = t5_config()
    config["tokenizer_class"] = "T5TokenizerFast"
    state = json.loads(tok.to_str())["added_tokens"]
    config["added_tokens_decoder"] = {str(t.pop("id")): t for t in state}
    write_json(folder / "tokenizer_config.json", config)


def compact_files(folder):
    """Drops the indentation of saved files."""
    for path in folder.glob("*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()), ensure_ascii=False, separators=(",", ":")) + "\n")


def write_ids(path, rows):
    path.write_text("".join(json.dumps(r, separators=(",", ":")) + "\n" for r in rows), encoding="utf-8")


def padded_rows(tok, texts):
    """[length, ids] of every 7th line, with padding and truncation."""
    rows = []
    for i, text in list(enumerate(texts))[::7]:
        length = (8, 16, 77)[i % 3]
        rows.append([i, length, tok(text, padding="max_length", max_length=length, truncation=True).input_ids])
    return rows


def decoded_rows(tok, ids):
    return [tok.decode(row, skip_special_tokens=True) for row in ids[::7]]


def library_ids(folder, texts):
    """What the sentencepiece library itself gives, with the added tokens cut out of the text first."""
    sp = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    ids = {t: sp.get_piece_size() + 99 - i for i, t in enumerate(EXTRA)} | {"<pad>": 0, "</s>": 1, "<unk>": 2}
    cut = re.compile("(" + "|".join(map(re.escape, ids)) + ")")
    rows = []
    for text in texts:
        row = []
        for part in cut.split(text):
            row += [ids[part]] if part in ids else sp.encode(part)
        rows.append(row + [1])
    return rows


def save_set(out, name, tok, texts):
    ids = [tok(t).input_ids for t in texts]
    write_ids(out / f"{name}.ids.jsonl", ids)
    write_ids(out / f"{name}.padded.jsonl", padded_rows(tok, texts))
    (out / f"{name}.decoded.jsonl").write_text(
        "".join(json.dumps(d, ensure_ascii=False) + "\n" for d in decoded_rows(tok, ids)), encoding="utf-8"
    )
    return ids


def differing(a, b):
    return sum(x != y for x, y in zip(a, b, strict=True))


def main(out):
    out.mkdir(parents=True, exist_ok=True)
    texts = tokenizer_text.lines()
    (out / "text.jsonl").write_text("".join(json.dumps(t, ensure_ascii=False) + "\n" for t in texts), encoding="utf-8")

    clip_model(out)
    compact_files(out / "clip_json")
    clip = save_set(out, "clip", CLIPTokenizer.from_pretrained(out / "clip_files"), texts)
    again = CLIPTokenizer.from_pretrained(out / "clip_json")
    clip_json = [again(t).input_ids for t in texts]
    file = Tokenizer.from_file(str(out / "clip_json/tokenizer.json"))
    clip_file = [file.encode(t).ids for t in texts]
    print("clip: json differs", differing(clip, clip_json), "file differs", differing(clip, clip_file))

    proto = train_spiece(out)
    t5_layout1(out, proto)
    layout1 = T5Tokenizer.from_pretrained(out / "t5_layout1")
    layout1.save_pretrained(out / "t5_layout2")
    layout1_ids = save_set(out, "t5", layout1, texts)
    compact_files(out / "t5_layout2")
    file1 = Tokenizer.from_file(str(out / "t5_layout1/tokenizer.json"))
    file1_ids = [file1.encode(t).ids for t in texts]
    rows = [[i, b] for i, (a, b) in enumerate(zip(layout1_ids, file1_ids, strict=True)) if a != b]
    write_ids(out / "t5_layout1_file.differs.jsonl", rows)
    file2 = Tokenizer.from_file(str(out / "t5_layout2/tokenizer.json"))
    file2_ids = [file2.encode(t).ids for t in texts]
    layout2 = T5Tokenizer.from_pretrained(out / "t5_layout2")
    layout2_ids = [layout2(t).input_ids for t in texts]
    print("t5: layout 1 file differs", differing(layout1_ids, file1_ids), "layout 2 class", differing(layout1_ids, layout2_ids),
          "layout 2 file", differing(layout2_ids, file2_ids))  # fmt: skip

    spiece = T5Tokenizer.from_pretrained(out / "t5_spiece")
    spiece_ids = [spiece(t).input_ids for t in texts]
    print("spiece: class differs from layout 2", differing(layout2_ids, spiece_ids),
          "from the library", differing(spiece_ids, library_ids(out / "t5_spiece", texts)))  # fmt: skip
    with tempfile.TemporaryDirectory() as bare:
        (pathlib.Path(bare) / "spiece.model").write_bytes((out / "t5_spiece/spiece.model").read_bytes())
        alone = T5Tokenizer.from_pretrained(bare)
        print("spiece without configuration: differs from layout 2", differing(layout2_ids, [alone(t).input_ids for t in texts]))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
