"""A small model directory for tests: a language of syllables, subwords of it, and weights, random or learned.

The task of the learned one: say the words backwards, each ciphered. A model that cannot look back, or that looks
ahead while it learns, does not learn it.
"""

from __future__ import annotations

import dataclasses
import io
import json
import random
from pathlib import Path

import sentencepiece
import torch
from safetensors.torch import save_file

from transformer.beam import pad
from transformer.config import END, PAD, START, UNKNOWN, ModelConfig
from transformer.model import Transformer
from transformer.subwords import Subwords

torch.set_num_threads(1)  # tensors this small are slower on two, and far slower where others are at work

SHAPE = ModelConfig(layers=2, d_model=64, d_ff=128, num_heads=4, dropout=0.0)
WORDS = [a + b for a in ("ka", "lo", "mi", "ter", "sun") for b in ("ba", "ri", "no", "el", "dru")]
CIPHER = dict(zip(WORDS, [word[::-1] for word in WORDS], strict=True))


def source_lines(count: int, seed: int = 1, longest: int = 9) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, longest))) for _ in range(count)]


def target_line(source: str) -> str:
    return " ".join(CIPHER[word] for word in reversed(source.split()))


def subword_model() -> bytes:
    lines = source_lines(400)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines + [target_line(line) for line in lines]), model_writer=model, vocab_size=360,
        model_type="bpe", byte_fallback=True, pad_id=PAD, unk_id=UNKNOWN, bos_id=START, eos_id=END,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    return model.getvalue()


def random_model(vocabulary: int, config: ModelConfig = SHAPE, seed: int = 1) -> Transformer:
    """Random weights with clear preferences; the word "end" is among them now and then."""
    torch.manual_seed(seed)
    model = Transformer(config, vocabulary)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return model.eval()


def write_model(directory: Path, model: Transformer, subwords: bytes) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    about = {"model": dataclasses.asdict(model.config), "vocabulary_size": model.vocabulary_size, "parameters": 12345}
    (directory / "config.json").write_text(json.dumps(about), encoding="utf-8")
    (directory / "subwords.model").write_bytes(subwords)
    save_file(
        {name: weight.detach().clone() for name, weight in model.named_parameters()}, directory / "model.safetensors"
    )
    return directory


def random_directory(directory: Path, config: ModelConfig = SHAPE, seed: int = 1) -> Path:
    subwords = subword_model()
    return write_model(directory, random_model(len(Subwords(subwords)), config, seed), subwords)


def learned_directory(tests: Path, updates: int = 160) -> Path:
    """Trained for some seconds, long enough to be right most of the time; once for all tests of a session."""
    directory = tests / "learned"
    return directory if directory.exists() else _learn(directory, updates)


def _learn(directory: Path, updates: int) -> Path:
    blob = subword_model()
    subwords = Subwords(blob)
    torch.manual_seed(2)
    model = Transformer(SHAPE, len(subwords)).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1.5e-3, betas=(0.9, 0.98))
    lines = source_lines(64 * updates, seed=2, longest=5)
    cpu = torch.device("cpu")
    for update in range(updates):
        some = lines[64 * update : 64 * (update + 1)]
        sources = subwords.encode_all(some)
        targets = subwords.encode_all([target_line(line) for line in some])
        gold = pad([[*ids, END] for ids in targets], cpu)
        logits = model(pad([[*ids, END] for ids in sources], cpu), pad([[START, *ids] for ids in targets], cpu))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), gold.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return write_model(directory, model.eval(), blob)
