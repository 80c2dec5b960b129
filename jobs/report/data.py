"""The data section of a report: what was read, what was left out and why, how long the pairs are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from jobs.report.figures import histogram
from jobs.report.row_results import Json, is_finite

MOST_BINS = 40


def data_section(corpus: Json, shards: Json) -> dict[str, Any]:
    """From the about.json of the training corpus and of the shards made of it."""
    histograms = lengths(shards)
    return {
        "counts": {"header": ["", ""], "lines": counts(corpus, shards)},
        "dropped": dropped(corpus, shards),
        "corpora": corpora(corpus),
        "histogram": Markup(histograms) if histograms else None,
        "caption": "Subwords per side of the training pairs.",
    }


def counts(corpus: Json, shards: Json) -> list[list[str]]:
    known = [
        ("pairs read", corpus.get("read")),
        ("pairs kept from the corpora", corpus.get("pairs")),
        ("pairs trained on", shards.get("pairs")),
        ("micro-batches", shards.get("micro_batches")),
        ("target subwords per micro-batch, about", shards.get("micro_batch_tokens")),
        ("source subwords", shards.get("source_tokens")),
        ("target subwords", shards.get("target_tokens")),
        ("vocabulary", shards.get("vocabulary_size")),
    ]
    lines = [[name, f"{value:,.0f}"] for name, value in known if is_finite(value)]
    for side in ("", "source_", "target_"):
        share = shards.get(f"{side}padding_share")
        name = f"padding, {side.rstrip('_')} side" if side else "padding"
        lines += [[name, f"{100 * float(share):.1f} %"]] if is_finite(share) and share is not None else []
    return lines or [["no counts recorded", "–"]]


def dropped(corpus: Json, shards: Json) -> dict[str, Any] | None:
    """Pairs left out, by where and why."""
    lines = []
    for where, about in (("corpora", corpus), ("shards", shards)):
        reasons = about.get("dropped")
        for reason, count in reasons.items() if isinstance(reasons, Mapping) else ():
            if is_finite(count) and count:
                lines.append([str(reason).replace("_", " "), where, f"{count:,.0f}"])
    return {"header": ["reason", "step", "pairs"], "lines": lines} if lines else None


def corpora(corpus: Json) -> dict[str, Any] | None:
    parts = corpus.get("corpora")
    if not isinstance(parts, Sequence):
        return None
    lines = [
        [
            str(part.get("name", "")),
            *[f"{part[key]:,}" if is_finite(part.get(key)) else "–" for key in ("read", "kept")],
        ]
        for part in parts
        if isinstance(part, Mapping)
    ]
    return {"header": ["corpus", "read", "kept"], "lines": lines} if lines else None


def lengths(shards: Json) -> str | None:
    """A histogram of the lengths of both sides, from {"bin": width, side: counts by bin}."""
    found = shards.get("lengths")
    if not isinstance(found, Mapping):
        return None
    counted = {side: [float(count) for count in found.get(side) or ()] for side in ("source", "target")}
    bins = max(len(counts) for counts in counted.values())
    if not bins:
        return None
    merged = -(-bins // MOST_BINS)
    width = float(found.get("bin", 1)) * merged
    series = [
        (side, [(at * width, sum(counts[at * merged : (at + 1) * merged])) for at in range(-(-len(counts) // merged))])
        for side, counts in counted.items()
        if counts
    ]
    return histogram(series, bin_width=width, x_label="subwords", y_label="pairs")
