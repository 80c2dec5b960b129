"""The data of a recipe for a person to look at: counts, lengths, padding, dropped pairs, samples.

Reads   corpora/<id>/about.json, dropped.json; vocabulary/<id>/subwords.model; shards/<id>/about.json, index, pools
Writes  nothing: `data_facts` returns plain data that JSON can hold, `as_text` the same for a terminal.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq

from jobs.corpora.pair_files import SIDES, open_parquet
from jobs.errors import UserError
from jobs.shards.layout import ABOUT, DROPPED, INDEX, pool_name
from jobs.storage.artifacts import Artifact
from transformer.config import SUBWORDS
from transformer.subwords import Subwords

BARS = 40  # characters of the longest bar of a histogram


def data_facts(
    *, corpora: Artifact, vocabulary: Artifact, shards: Artifact, samples: int = 5, seed: int = 1
) -> dict[str, Any]:
    """Figures and samples of the data that a training reads. `samples` pairs are drawn from the whole by the seed."""
    if not shards.exists(ABOUT):
        raise UserError(f"There are no shards at {shards.uri} yet: run the recipe first, or run it --until shards.")
    corpus, about = corpora.read_json("about.json"), shards.read_json(ABOUT)
    subwords = Subwords(vocabulary.read_bytes(SUBWORDS))
    with shards.local(INDEX) as path:
        index = pq.read_table(path).to_pylist()
    return {
        "languages": [corpus["source_language"], corpus["target_language"]],
        "corpora": corpus.get("corpora", []),
        "read": corpus.get("read", corpus["pairs"]),
        "dropped_from_corpora": corpus.get("dropped", {}),
        "dropped_from_shards": about["dropped"],
        "dropped_samples": dropped_samples(corpora) | dropped_samples(shards),
        **{name: value for name, value in about.items() if name not in ("dropped", "lengths", "seed")},
        "lengths": histograms(about["lengths"]),
        "longest": [longest(shards, index, subwords, side) for side in SIDES],
        "sample": drawn_pairs(shards, index, subwords, samples, seed),
    }


def dropped_samples(artifact: Artifact) -> dict[str, Any]:
    return dict(artifact.read_json(DROPPED)) if artifact.exists(DROPPED) else {}


def histograms(lengths: Mapping[str, Any]) -> list[dict[str, int]]:
    """A row per bar: from and to how many subwords (END counted), and how many sentences of each side."""
    width, rows = lengths["bin"], []
    for number in range(max(len(lengths[side]) for side in SIDES)):
        counts = {side: lengths[side][number] if number < len(lengths[side]) else 0 for side in SIDES}
        rows.append({"from": number * width, "to": (number + 1) * width - 1, **counts})
    return rows


def longest(
    shards: Artifact, index: Sequence[Mapping[str, Any]], subwords: Subwords, side: str
) -> dict[str, int | str]:
    """The pair with the most subwords on that side."""
    where = max(index, key=lambda row: int(row[f"longest_{side}"]))
    pairs = read_micro_batch(shards, where)
    pair = max(pairs, key=lambda pair: len(pair[SIDES.index(side)]))
    return {"side": side, "subwords": int(where[f"longest_{side}"]), **decoded(pair, subwords)}


def drawn_pairs(
    shards: Artifact, index: Sequence[Mapping[str, Any]], subwords: Subwords, samples: int, seed: int
) -> list[dict[str, str]]:
    """Pairs drawn from the whole corpus, each as likely as any other."""
    draw = random.Random(seed)
    places = draw.choices(index, weights=[row["pairs"] for row in index], k=samples)
    return [decoded(draw.choice(read_micro_batch(shards, place)), subwords) for place in places]


def read_micro_batch(shards: Artifact, where: Mapping[str, Any]) -> list[tuple[list[int], list[int]]]:
    with open_parquet(shards, pool_name(where["pool"])) as file:
        batch = file.read_row_group(where["row_group"]).to_pydict()
    return list(zip(batch["source"], batch["target"], strict=True))


def decoded(pair: tuple[list[int], list[int]], subwords: Subwords) -> dict[str, str]:
    return {side: subwords.decode(ids) for side, ids in zip(SIDES, pair, strict=True)}


def as_text(facts: Mapping[str, Any]) -> str:
    """The facts as lines for a terminal."""
    source, target = facts["languages"]
    lines = [f"{source}-{target}: {facts['pairs']:,} pairs of {facts['read']:,} read"]
    lines += [f"  {one['name']}: {one['kept']:,} of {one['read']:,}" for one in facts["corpora"]]
    for stage in ("corpora", "shards"):
        lines += [f"  dropped in {stage}: {n:,} {why}" for why, n in facts[f"dropped_from_{stage}"].items() if n]
    lines += [
        f"{facts['micro_batches']:,} micro-batches of about {facts['micro_batch_tokens']:,} target tokens",
        f"tokens: {facts['source_tokens']:,} source, {facts['target_tokens']:,} target (END counted)",
        f"padding: {facts['padding_share']:.1%} in all, {facts['source_padding_share']:.1%} of the source, "
        f"{facts['target_padding_share']:.1%} of the target",
        f"subwords a sentence ({source} | {target}):",
        *bars(facts["lengths"]),
    ]
    for one in facts["longest"]:
        lines.append(f"longest {one['side']}: {one['subwords']} subwords: {shortened(one[one['side']])}")
    for pair in facts["sample"]:
        lines += ["", f"  {source}: {shortened(pair['source'])}", f"  {target}: {shortened(pair['target'])}"]
    return "\n".join(lines)


def bars(lengths: Sequence[Mapping[str, int]]) -> list[str]:
    most = max(max(row[side] for side in SIDES) for row in lengths)
    return [
        f"  {row['from']:4}-{row['to']:<4}"
        + " | ".join(f"{'█' * round(BARS * row[side] / most):{BARS}} {row[side]:>11,}" for side in SIDES)
        for row in lengths
    ]


def shortened(text: str, most: int = 160) -> str:
    """One line of the text, without what a terminal might take for a command."""
    text = "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
    return text if len(text) <= most else text[: most - 1] + "…"
