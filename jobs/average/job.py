"""Average the last checkpoints of a training run into one model (section 6.1: last 5 for base, 20 for big).

Reads   train/<id>/checkpoints.json and the checkpoints it names, vocabulary/<id>/subwords.model
Writes  average/<id>/config.json, model.safetensors, subwords.model, README.md: a directory that translates by itself
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import ray
from safetensors.torch import save_file

from jobs.configs import AverageConfig, Resources
from jobs.errors import UserError
from jobs.events import Facts, Log, Note
from jobs.storage.artifacts import Artifact
from transformer.checkpoint import MODEL, average
from transformer.config import CONFIG, END, PAD, START, SUBWORDS, UNKNOWN, WEIGHTS

README = """# A Transformer (Attention Is All You Need)

{parameters:,} parameters, {vocabulary_size:,} subwords; the mean of the weights after updates {updates}.

- `config.json`: the model's shape, as in `transformer/config.py`
- `model.safetensors`: the weights
- `subwords.model`: SentencePiece; {ids}

`attn translate DIRECTORY "a sentence"` translates with it.
"""


def run(
    config: AverageConfig, *, training: Artifact, vocabulary: Artifact, out: Artifact, on: Resources, log: Log
) -> Facts:
    """Facts: parameters, checkpoints (how many were averaged), first_update, last_update."""
    chosen = training.read_json("checkpoints.json")[-config.last :]
    updates = [int(entry["update"]) for entry in chosen]
    if not chosen:
        raise UserError(f"The training run at {training.uri} has no checkpoint to average. Train it again.")
    if len(chosen) < config.last:
        log(Note(f"Averaging {len(chosen)} checkpoints, not {config.last}: the training run has no more of them."))
    about: dict[str, Any] = training.read_json("model.json")
    task: Any = ray.remote(num_cpus=1)(write_average)
    parameters: int = ray.get(task.remote(training, [entry["path"] for entry in chosen], out))
    out.write_json(CONFIG, {**about, "checkpoints": updates, "parameters": parameters})
    out.write_bytes(SUBWORDS, vocabulary.read_bytes(SUBWORDS))
    out.write_text("README.md", describe(about["vocabulary_size"], parameters, updates))
    return {
        "parameters": parameters, "checkpoints": len(updates), "first_update": updates[0], "last_update": updates[-1],
    }  # fmt: skip


def write_average(training: Artifact, paths: list[str], out: Artifact) -> int:
    """Average and write the weights; the number of parameters. Fetches one checkpoint at a time."""
    with ExitStack() as fetched:
        files = (fetched.enter_context(training.local(f"{path}/{MODEL}")) for path in paths)
        weights = average(files)
    with out.writing(WEIGHTS) as draft:
        save_file(weights, draft)
    return sum(weight.numel() for weight in weights.values())


def describe(vocabulary_size: int, parameters: int, updates: list[int]) -> str:
    return README.format(
        parameters=parameters,
        vocabulary_size=vocabulary_size,
        updates=", ".join(f"{update:,}" for update in updates),
        ids=f"pad {PAD}, unk {UNKNOWN}, bos {START}, eos {END}",
    )
