"""Trains the tokenizers of the random pipelines: CLIP's byte-level BPE and T5's unigram."""

import collections
import io

import sentencepiece
from tokenizers import Regex, pre_tokenizers
from transformers import CLIPTokenizer, T5Tokenizer

CORPUS = """
A painting of a squirrel eating a burger. A photo of a red apple on a wooden table, soft light.
An old lighthouse above the sea at sunset, with storm clouds behind it. A small blue boat.
Three cats sleeping on a sofa near the window. A dog running through tall grass in the morning.
The street of a quiet village after the rain, oil on canvas. A woman wearing a green hat.
A bowl of oranges, lemons and grapes; still life with a dark background. Mountains covered in snow.
A city at night seen from above, neon signs, cars and people with umbrellas. A yellow bicycle.
An astronaut riding a horse on the moon, cinematic, highly detailed, 35mm. A castle on a hill.
A cup of coffee beside an open book, watercolour. A forest path in autumn with falling leaves.
Blurry, low quality, distorted, watermark, text. A robot watering the flowers in the garden.
A fox in the snow looking at the camera. Two birds on a branch, ink drawing, white background.
""".strip().splitlines() * 20

START, END = "<|startoftext|>", "<|endoftext|>"
SPLIT = Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+")


def clip(merge_count):
    """CLIP's order of ids: 256 bytes, 256 bytes ending a word, merges, start, end."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = train_bpe(merge_count)
    tokens = alphabet + [c + "</w>" for c in alphabet] + ["".join(pair) for pair in merges]
    tokens = list(dict.fromkeys(tokens)) + [START, END]
    vocab = {token: i for i, token in enumerate(tokens)}
    return CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=77)


def train_bpe(merge_count):
    """The most frequent pairs, ties in order of text: the library's trainer breaks ties at random."""
    split = pre_tokenizers.Sequence([
        pre_tokenizers.Split(SPLIT, behavior="removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    counts = collections.Counter(
        word for line in CORPUS for word, _ in split.pre_tokenize_str(line.lower()))
    words = {(*word[:-1], word[-1] + "</w>"): count for word, count in counts.items()}
    merges = []
    while len(merges) < merge_count:
        pairs = collections.Counter()
        for word, count in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        words = {merge(word, best): count for word, count in words.items()}
    return merges


def merge(word, pair):
    merged = []
    for symbol in word:
        if merged and (merged[-1], symbol) == pair:
            merged[-1] += symbol
        else:
            merged.append(symbol)
    return tuple(merged)


def t5(size, extra_ids):
    """Returns the tokenizer and the sentencepiece model that it was made from."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=model, vocab_size=size, model_type="unigram",
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, character_coverage=1.0, num_threads=1,
        normalization_rule_name="identity", minloglevel=2)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    vocab = [(pieces.id_to_piece(i), pieces.get_score(i)) for i in range(len(pieces))]
    vocab += [(f"<extra_id_{i}>", 0.0) for i in reversed(range(extra_ids))]
    tokenizer = T5Tokenizer(vocab=vocab, extra_ids=extra_ids, model_max_length=512)
    return tokenizer, model.getvalue()
