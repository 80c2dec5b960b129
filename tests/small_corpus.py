"""A corpus for the data stages: made-up words of two made-up languages, from a seed."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.artifacts import Artifact
from jobs.configs import Resources, VocabularyConfig
from jobs.vocabulary import LISTING, MODEL, learn

HERE = Resources()
SMALL = VocabularyConfig(size=400)


def invent(pairs: int, seed: int = 1, longest: int = 30) -> list[tuple[str, str]]:
    """Pairs whose sides have lengths that go together, as those of translations do."""
    draw = random.Random(seed)
    words = ["".join(draw.choice("aeiouklmnprst") for _ in range(draw.randint(1, 8))) for _ in range(300)]
    made = []
    for _ in range(pairs):
        length = draw.randint(1, longest)
        other = max(1, round(length * draw.uniform(0.7, 1.4)))
        made.append((" ".join(draw.choices(words, k=length)), " ".join(draw.choices(words, k=other)) + " ä"))
    return made


def write_corpus(
    directory: Path, pairs: list[tuple[str, str]], *, files: int = 2, row_group: int = 64, languages: str = "en de"
) -> Artifact:
    """The pairs as the `corpora` stage leaves them."""
    corpora = Artifact(str(directory))
    (directory / "pairs").mkdir(parents=True)
    size = -(-len(pairs) // files) or 1
    for part in range(files):
        rows = pairs[part * size : (part + 1) * size]
        table = pa.table({"source": [s for s, _ in rows], "target": [t for _, t in rows]}, SCHEMA)
        pq.write_table(table, directory / f"pairs/part-{part:05d}.parquet", row_group_size=row_group)
    source, target = languages.split()
    corpora.write_json("about.json", {"source_language": source, "target_language": target, "pairs": len(pairs)})
    return corpora


def write_vocabulary(directory: Path, corpora: Artifact, config: VocabularyConfig = SMALL) -> Artifact:
    """The subwords as the `vocabulary` stage leaves them, learned here and not on Ray."""
    vocabulary = Artifact(str(directory))
    model, listing, _ = learn(config, corpora)
    vocabulary.write_bytes(MODEL, model)
    vocabulary.write_text(LISTING, listing)
    return vocabulary


SCHEMA = pa.schema([("source", pa.string()), ("target", pa.string())])


def read_pairs(stem: Path, source: str, target: str) -> list[tuple[str, str]]:
    """Real text: `stem`.en.gz and `stem`.de.gz, line N of one the translation of line N of the other."""
    sides = []
    for language in (source, target):
        with gzip.open(f"{stem}.{language}.gz", "rt", encoding="utf-8", newline="\n") as file:
            sides.append(file.read().removesuffix("\n").split("\n"))
    return list(zip(*sides, strict=True))
