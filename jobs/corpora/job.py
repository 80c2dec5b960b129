"""Get a corpus: sentences of the demo language, the user's files, archives from the internet, or a known test set.

Writes  corpora/<id>/pairs/part-00000.parquet ...   `source`, `target` and, of a test set in named parts, `part`
        corpora/<id>/about.json                     languages and counts: read, kept, dropped by reason, per corpus
        corpora/<id>/dropped.json                   a sample of what was dropped, by reason
        corpora/<id>/unpaired.json                  of one text: every dropped line with its place, for a test set

Each pair of texts is read by one Ray task, as a stream; how, its kind says (kinds/). aligned_lines.py keeps line N with
line N, archives.py reads members of archives, download.py fetches them. Only what cannot be read goes: the rest is
jobs/shards/cleaning.py.
"""

from __future__ import annotations

import importlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from jobs.configs import Corpus, Resources
from jobs.corpora.aligned_lines import UNPAIRED
from jobs.corpora.reading import Reading, TaskReport
from jobs.corpora.tasks import run_tasks, this_node
from jobs.errors import UserError
from jobs.events import Facts, Log, Note, Progress
from jobs.storage.artifacts import Artifact

SUSPICIOUS = 0.1  # share of the pairs of a corpus that is said aloud


def run(config: Corpus, *, out: Artifact, on: Resources, log: Log) -> Facts:
    """Write the pairs of a corpus. Facts: pairs, read, dropped, corpora, seconds."""
    started = time.monotonic()
    kind: Any = importlib.import_module(f"jobs.corpora.kinds.{config.kind}")
    reading: Reading = kind.read(config, out, on, log)
    tallies = work(reading, on, log)
    return describe(config, tallies, out, log) | {"seconds": round(time.monotonic() - started, 2)}


# --- one task per pair of texts --------------------------------------------------------------------------------------


def work(reading: Reading, on: Resources, log: Log) -> list[TaskReport]:
    """Run the tasks on the cluster, as many at once as the profile says; their tallies, in the order of the tasks.

    A task says how far it is as it goes, so that a corpus of forty million pairs is no silence of an hour.
    """
    nodes = [this_node() if reading.here else None] * len(reading.tasks)
    tallies: dict[int, TaskReport] = {}
    done = 0
    for number, report in run_tasks(reading.tasks, at_once=on.data.tasks, cpus=on.data.cpus_per_task, nodes=nodes):
        if "pairs" in report:
            done += report["pairs"]
            log(Progress(done, reading.total, "pairs"))
        else:
            tallies[number] = report["tally"]
    return [tallies[number] for number in sorted(tallies)]


# --- what it was -----------------------------------------------------------------------------------------------------


def describe(config: Corpus, tallies: Sequence[TaskReport], out: Artifact, log: Log) -> dict[str, int | float | str]:
    dropped: Counter[str] = Counter()
    samples: dict[str, list[TaskReport]] = {}
    for tally in tallies:
        dropped.update(tally["dropped"])
        for reason, kept in tally["samples"].items():
            samples.setdefault(reason, []).extend(kept)
    pairs, read = sum(tally["kept"] for tally in tallies), sum(tally["read"] for tally in tallies)
    if not pairs:
        why = f" All {read:,} were dropped: {in_words(dropped)}." if read else ""
        raise UserError(f"The corpus is empty: {' and '.join(tallies[0]['sides'])} hold no pair of sentences.{why}")
    corpora: dict[str, TaskReport] = {}
    for tally in tallies:
        corpus = corpora.setdefault(tally["name"], {"name": tally["name"], "read": 0, "kept": 0, "repaired": 0})
        for key in ("read", "kept", "repaired"):
            corpus[key] += tally[key]
    about = {
        "source_language": config.source_language,
        "target_language": config.target_language,
        "pairs": pairs,
        "read": read,
        "dropped": dict(dropped.most_common()),
        "repaired": sum(tally["repaired"] for tally in tallies),
        "corpora": list(corpora.values()),
        **config.form(),
    }
    out.write_json("dropped.json", samples)
    if len(tallies) == 1 and tallies[0]["unpaired"]:
        out.write_json(UNPAIRED, tallies[0]["unpaired"])
    out.write_json("about.json", about)
    if dropped:
        log(Note(f"{read - pairs:,} of {read:,} pairs could not be read: {in_words(dropped)}"))
    for sentence in (sentence for tally in tallies for sentence in warnings_of(tally)):
        log(Note(sentence))
    return {"pairs": pairs, "read": read, "dropped": read - pairs, "corpora": len(corpora)}


def warnings_of(tally: TaskReport) -> Iterator[str]:
    """What is allowed and most likely a mistake."""
    source, target = tally["sides"]
    if tally["same"] > SUSPICIOUS * tally["kept"]:
        yield f"{tally['same']:,} of {tally['kept']:,} pairs of {source} and {target} have the same text on both sides."
    if tally["repaired"] > SUSPICIOUS * tally["kept"]:
        yield (
            f"{tally['repaired']:,} of {tally['kept']:,} lines of {source} and {target} have other line breaks inside, "
            "such as CR alone: a line ends at LF only, and these were taken as blanks."
        )
    for side, other in ((0, 1), (1, 0)):
        if tally["crlf"][side] > SUSPICIOUS * tally["kept"] > tally["crlf"][other]:
            yield f"{tally['sides'][side]} ends its lines with CR LF, the other side does not: taken as line ends."


def in_words(dropped: Counter[str]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in dropped.most_common())
