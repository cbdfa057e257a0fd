#!/usr/bin/env python3
"""Makes both tokenizers and both text encoders of the demo.

CLIP is trained for some minutes to match phrasings with thumbnails of the pictures;
T5 is random and frozen, with a relative position bias of zero: then all padding tokens
have the same output, which lets training stand one weighted token for all of them.
"""
import argparse
import io
import json
import os
import random
import string

import numpy as np
import sentencepiece
import torch
from sentencepiece import sentencepiece_model_pb2 as proto
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import (CLIPTextConfig, CLIPTextModel, CLIPTokenizer, T5Config,
                          T5EncoderModel, T5Tokenizer)

import pictures
import prompts

SPLIT = (r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]"
         r"|[^\s\p{L}\p{N}]+")
WIDTH = 128


def clip_tokenizer(corpus):
    trained = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    trained.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    trained.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trained.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=1300, end_of_word_suffix="</w>", initial_alphabet=alphabet,
        show_progress=False))

    merges = [tuple(m) for m in json.loads(trained.to_str())["model"]["merges"]]
    pieces = alphabet + [c + "</w>" for c in alphabet]
    seen = set(pieces)
    for a, b in merges:
        if a + b not in seen:
            seen.add(a + b)
            pieces.append(a + b)
    pieces += ["<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(vocab={p: i for i, p in enumerate(pieces)}, merges=merges,
                         model_max_length=77)


def t5_tokenizer(corpus):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=model, model_type="unigram",
        vocab_size=1200, hard_vocab_limit=False, character_coverage=1.0,
        required_chars=string.ascii_letters + string.digits + string.punctuation,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, pad_piece="<pad>", minloglevel=2)
    parsed = proto.ModelProto.FromString(model.getvalue())
    vocab = [(p.piece, p.score) for p in parsed.pieces]
    vocab += [("<extra_id_%d>" % i, 0.0) for i in range(99, -1, -1)]
    return T5Tokenizer(vocab=vocab, extra_ids=100, model_max_length=512,
                       _spm_precompiled_charsmap=parsed.normalizer_spec.precompiled_charsmap)


def clip_model(tokenizer):
    return CLIPTextModel(CLIPTextConfig(
        vocab_size=len(tokenizer), hidden_size=WIDTH, intermediate_size=4 * WIDTH,
        num_hidden_layers=2, num_attention_heads=4, projection_dim=WIDTH,
        max_position_embeddings=77, hidden_act="quick_gelu",
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id))


def t5_model(tokenizer):
    model = T5EncoderModel(T5Config(
        vocab_size=len(tokenizer), d_model=WIDTH, d_kv=32, num_heads=4, d_ff=2 * WIDTH,
        num_layers=2, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
        dropout_rate=0.0))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "relative_attention_bias" in name:
                parameter.zero_()
            elif "layer_norm" not in name:
                deviation = 1.0 if "shared" in name or "embed_tokens" in name else (
                    0.4 * parameter.shape[-1] ** -0.5)
                parameter.normal_(0, deviation)
    return model


def train_clip(model, tokenizer, names, thumbs, steps):
    """Contrastive training of texts against a linear embedding of the thumbnails."""
    values = torch.from_numpy(thumbs - thumbs.mean(0))
    image_head = torch.nn.Linear(values.shape[1], WIDTH)
    text_head = torch.nn.Linear(WIDTH, WIDTH, bias=False)
    scale = torch.nn.Parameter(torch.tensor(2.0))
    parameters = [*model.parameters(), *image_head.parameters(), *text_head.parameters(), scale]
    optimizer = torch.optim.AdamW(parameters, lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    rng = random.Random(5)
    target = torch.arange(len(names))
    for step in range(steps):
        texts = [prompts.phrase(n, rng) for n in names]
        ids = tokenizer(texts, padding=True, truncation=True, return_tensors="pt").input_ids
        text = torch.nn.functional.normalize(text_head(model(input_ids=ids).pooler_output), dim=-1)
        image = torch.nn.functional.normalize(image_head(values), dim=-1)
        logits = scale.exp() * text @ image.T
        loss = torch.nn.functional.cross_entropy(logits, target, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 50 == 49:
            right = (logits.argmax(1) == target).float().mean().item()
            print("clip step %d loss %.3f right %.3f" % (step + 1, loss.item(), right), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="work")
    parser.add_argument("--steps", type=int, default=150)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(3)
    concepts = pictures.load_concepts()
    names = [name for _, name in concepts]
    corpus = [text for texts in prompts.bank(names, 40, seed=1) for text in texts]
    thumbs = np.stack([pictures.thumbnail(p) for p in pictures.pictures(concepts)])
    tokenizer, tokenizer_2 = clip_tokenizer(corpus), t5_tokenizer(corpus)
    print("vocabularies:", len(tokenizer), len(tokenizer_2))
    clip, t5 = clip_model(tokenizer), t5_model(tokenizer_2)
    train_clip(clip, tokenizer, names, thumbs, args.steps)
    for folder, part in (("tokenizer", tokenizer), ("tokenizer_2", tokenizer_2),
                         ("text_encoder", clip.bfloat16()), ("text_encoder_2", t5.bfloat16())):
        part.save_pretrained(os.path.join(args.out, folder))


if __name__ == "__main__":
    main()
