"""Translate a test set with a trained model, and see how probable it finds the references (section 6.1).

Reads   a model directory (jobs/average/job.py), pairs/*.parquet, about.json and unpaired.json of a test set
Writes  translations.parquet, one row per line of the test set in its order; hypotheses.txt; about.json

Sentences of like length are translated together, the longest first, by a Ray Data pool of actors that each hold the
model. One task reads the test set and hands the batches to the pool, one puts the translations together: no text
passes through the driver. A batch that is done stands in work/ and is not done again when the job is. Which batch a
sentence was in changes no word of its translation (transformer/beam.py), so neither does the size of the pool or of
the batches.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import ray
import ray.data
import torch

from jobs.cluster.connect import require_resources
from jobs.cluster.one_task import in_task, stream_of_task
from jobs.cluster.ray_map import disable_backpressure
from jobs.configs import Resources, TranslateConfig, TranslateResources
from jobs.corpora.aligned_lines import UNPAIRED
from jobs.durations import duration
from jobs.errors import UserError
from jobs.events import Facts, Log, Note, Progress
from jobs.storage.artifacts import RECORD, WORK, Artifact
from jobs.storage.object_store import filesystem
from transformer.beam import Forced
from transformer.config import CONFIG, MODEL_FILES, SUBWORDS, SearchConfig
from transformer.loading import model_shape
from transformer.subwords import Subwords
from transformer.translator import LONGEST, Translator, length_batches

ALTERNATIVE = pa.struct([("text", pa.string()), ("score", pa.float64())])
DONE = pa.schema(
    [
        ("line", pa.int64()),
        ("hypothesis", pa.string()),
        ("score", pa.float64()),
        ("tokens", pa.int32()),
        ("alternatives", pa.list_(ALTERNATIVE)),
        ("reference_log_probability", pa.float64()),
        ("reference_tokens", pa.int32()),  # END counted
        ("seconds", pa.float64()),  # this line's share of its batch's time
    ]
)
DESCRIBED = ("source_language", "target_language", "targets", "tags")  # of the test set's about.json
COLUMNS = ["line", "source", "reference", "part", *(name for name in DONE.names if name not in ("line", "seconds"))]


def run(
    config: TranslateConfig, *, model: Artifact, testset: Artifact, out: Artifact, on: Resources, log: Log
) -> Facts:
    """Facts: sentences, target_tokens, seconds, tokens_per_second (of all actors, start-up left out), perplexity."""
    about_model = read_model(model)
    work = out.child(WORK)
    batches, planned = stream_of_task(plan, testset, model, work, on.translate.batch_tokens)
    if batches:
        if planned.done:
            log(Note(f"{planned.done:,} of {planned.lines:,} sentences were translated before."))
        actor = {"CPU": on.translate.cpus_per_actor, "GPU": on.translate.gpus_per_actor}
        require_resources("Translating", [actor], log)
        for done, detail in _translated(batches, planned.size, model, work, config.search, on.translate):
            log(Progress(planned.done + done, planned.lines, "sentences", detail))
    facts = in_task(finish, config, testset, out, on.translate.actors)
    parameters = about_model.get("parameters") or (model.facts if model.exists(RECORD) else {}).get("parameters")
    return facts if parameters is None else facts | {"parameters": parameters}


# --- what there is to do -----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Plan:
    """What there is to do: lines of the test set, those done before, subwords of the others."""

    lines: int
    done: int
    size: int


def plan(testset: Artifact, model: Artifact, work: Artifact, batch_tokens: int) -> Iterator[pa.Table | Plan]:
    """Every batch as a table of one row, then the plan. A task: the test set goes from it to the actors."""
    pairs = read_pairs(testset)
    to_do = missing_lines(pairs.num_rows, work)
    batches = plan_batches(pairs, to_do, Subwords(model.read_bytes(SUBWORDS)), batch_tokens) if to_do else []
    for batch in batches:
        yield pa.Table.from_pylist([batch])
    yield Plan(pairs.num_rows, pairs.num_rows - len(to_do), sum(batch["size"] for batch in batches))


def read_model(model: Artifact) -> dict[str, Any]:
    """Its config.json, once it is plain that the directory is a model's."""
    absent = [name for name in MODEL_FILES if not model.exists(name)]
    if absent:
        raise UserError(f"The model at {model.uri} has no {', '.join(absent)}: make it again with `attn run`.")
    try:
        about: dict[str, Any] = model.read_json(CONFIG)
        model_shape(about)
    except ValueError as error:
        raise UserError(f"The model at {model.uri} cannot be used: {error}.") from error
    return about


def read_pairs(testset: Artifact) -> pa.Table:
    """The test set in its order: line, source, reference, part (null where the set has no parts)."""
    names = [name for name in testset.names("pairs") if name.endswith(".parquet")]
    if not names:
        raise UserError(f"The test set at {testset.uri} has no pairs to translate.")
    parts = []
    for name in names:
        files, path = filesystem(testset, f"pairs/{name}")
        table = pq.read_table(path, filesystem=files)
        part = table["part"] if "part" in table.column_names else pa.nulls(table.num_rows, pa.string())
        parts.append(pa.table({"source": table["source"], "reference": table["target"], "part": part}))
    pairs = with_unpaired(pa.concat_tables(parts), testset)
    if pairs.num_rows == 0:
        raise UserError(f"The test set at {testset.uri} is empty: there is nothing to translate.")
    return pairs.add_column(0, "line", pa.array(range(pairs.num_rows), pa.int64()))


def with_unpaired(pairs: pa.Table, testset: Artifact) -> pa.Table:
    """The lines that could not be paired put back where they stood: line N of the set is line N of the user's files."""
    if not testset.exists(UNPAIRED):
        return pairs
    paired = iter(pairs.to_pylist())
    lost = {line: {"source": source, "reference": reference} for line, source, reference in testset.read_json(UNPAIRED)}
    rows = [lost[line] if line in lost else next(paired) for line in range(pairs.num_rows + len(lost))]
    return pa.Table.from_pylist(rows, schema=pairs.schema)


def missing_lines(lines: int, work: Artifact) -> list[int]:
    """What an earlier, interrupted run of this job has left to do."""
    found = set(read_done(work)["line"].to_pylist())
    return [line for line in range(lines) if line not in found]


def plan_batches(pairs: pa.Table, lines: Sequence[int], subwords: Subwords, batch_tokens: int) -> list[dict[str, Any]]:
    """Rows for the actors: lines of like length with their texts."""
    chosen = pairs.take(pa.array(lines, pa.int64()))
    sources, references = chosen["source"].to_pylist(), chosen["reference"].to_pylist()
    lengths = [len(ids) + 1 for ids in subwords.encode_all(sources)]
    if (most := max(lengths)) > LONGEST:
        line = lines[lengths.index(most)] + 1
        raise UserError(f"Line {line:,} of the test set has {most:,} subwords; at most {LONGEST:,} are possible.")
    return [
        {
            "lines": [lines[place] for place in places],
            "size": sum(lengths[place] for place in places),
            "sources": [sources[place] for place in places],
            "references": [references[place] for place in places],
        }
        for places in length_batches(lengths, batch_tokens)
    ]


# --- on the cluster ----------------------------------------------------------------------------------------------


def _translated(
    batches: list[Any], whole: int, model: Artifact, work: Artifact, search: SearchConfig, on: TranslateResources
) -> Iterator[tuple[int, str]]:
    """Translate all batches. Yields the number of sentences done, and rate and remaining time in words."""
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    # The rows are in the object store before the pool starts, so nothing needs a CPU that the actors hold.
    actor: Any = TranslatingActor
    data = ray.data.from_arrow_refs(batches).map(
        actor,
        fn_constructor_kwargs={"model": model, "work": work, "search": search, "on": on},
        compute=ray.data.ActorPoolStrategy(
            min_size=1, max_size=min(on.actors, len(batches)), max_tasks_in_flight_per_actor=2
        ),
        num_cpus=on.cpus_per_actor,
        num_gpus=on.gpus_per_actor or None,
    )
    disable_backpressure(data)
    sentences, tokens, size, started = 0, 0, 0, math.inf
    for report in data.iter_rows():
        sentences, tokens, size = sentences + report["sentences"], tokens + report["tokens"], size + report["size"]
        started = min(started, report["started"])
        seconds = max(time.time() - started, 1e-9)
        left = seconds * (whole - size) / size
        yield sentences, f"{tokens / seconds:,.0f} tokens/s, {duration(left)} left"


class TranslatingActor:
    """Holds the model, and puts every batch it is given into work/ as a file of its own."""

    def __init__(self, model: Artifact, work: Artifact, search: SearchConfig, on: TranslateResources) -> None:
        torch.set_num_threads(max(1, int(on.cpus_per_actor)))
        self.work = work
        self.search = search
        device = "cuda" if on.gpus_per_actor else "cpu"
        with model.directory() as directory:
            self.translator = Translator.load(directory, device, on.batch_tokens)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        lines, sources, references = list(row["lines"]), list(row["sources"]), list(row["references"])
        started = time.time()
        translations = self.translator.translate(sources, self.search)
        seconds = time.time() - started
        forced = known_pairs(self.translator, sources, references)
        several = self.search.n_best > 1
        table = pa.table(
            {
                "line": lines,
                "hypothesis": [t.text for t in translations],
                "score": [t.score for t in translations],
                "tokens": [t.tokens for t in translations],
                "alternatives": [
                    [{"text": a.text, "score": a.score} for a in t.alternatives] if several else []
                    for t in translations
                ],
                "reference_log_probability": [score.log_probability for score in forced],
                "reference_tokens": [score.tokens for score in forced],
                "seconds": [seconds / len(lines)] * len(lines),
            },
            schema=DONE,
        )
        with self.work.writing(batch_name(lines)) as path:
            pq.write_table(table, path)
        tokens = sum(t.tokens for t in translations)
        return {"sentences": len(lines), "tokens": tokens, "size": row["size"], "started": started}


def known_pairs(translator: Translator, sources: Sequence[str], references: Sequence[str]) -> list[Forced]:
    """How probable the references are; a line without its other side counts for nothing."""
    places = [n for n, pair in enumerate(zip(sources, references, strict=True)) if pair[0].strip() and pair[1].strip()]
    found = translator.forced([sources[n] for n in places], [references[n] for n in places])
    scored = [Forced(0.0, 0)] * len(sources)
    for place, score in zip(places, found, strict=True):
        scored[place] = score
    return scored


def batch_name(lines: Sequence[int]) -> str:
    """The same for the same lines, so that a batch done twice stands there once."""
    digest = zlib.crc32(",".join(map(str, lines)).encode())
    return f"batch-{min(lines):08d}-{digest:08x}.parquet"


# --- the result --------------------------------------------------------------------------------------------------


def finish(config: TranslateConfig, testset: Artifact, out: Artifact, actors: int) -> dict[str, int | float | str]:
    """Put the translations together. A task, as `plan` is; returns the facts."""
    done = read_done(out.child(WORK))
    write(in_order(read_pairs(testset), done), config, testset, out)
    return measured(done, actors)


def read_done(work: Artifact) -> pa.Table:
    """Everything that stands in work/, each line once."""
    parts = [DONE.empty_table()]
    for name in work.names():
        files, path = filesystem(work, name)
        parts.append(pq.read_table(path, filesystem=files, schema=DONE))
    table = pa.concat_tables(parts)
    first_places = {line: place for place, line in reversed(list(enumerate(table["line"].to_pylist())))}
    return table.take(pa.array(sorted(first_places.values()), pa.int64()))


def in_order(pairs: pa.Table, done: pa.Table) -> pa.Table:
    """Translations beside their sources, in the order of the test set."""
    done = done.sort_by("line")
    if done["line"].to_pylist() != pairs["line"].to_pylist():
        raise RuntimeError(f"{done.num_rows} translations of {pairs.num_rows} sentences came back")
    for name in DONE.names[1:]:
        pairs = pairs.append_column(name, done[name])
    return pairs.select(COLUMNS)


def write(table: pa.Table, config: TranslateConfig, testset: Artifact, out: Artifact) -> None:
    with out.writing("translations.parquet") as path:
        pq.write_table(table, path)
    out.write_text("hypotheses.txt", "".join(f"{line}\n" for line in table["hypothesis"].to_pylist()))
    about = testset.read_json("about.json")
    out.write_json(
        "about.json",
        {
            **{name: about[name] for name in DESCRIBED if name in about},
            "sentences": table.num_rows,
            "search": dataclasses.asdict(config.search),
        },
    )


def measured(done: pa.Table, actors: int) -> dict[str, int | float | str]:
    """Speed over the time spent searching, were the actors busy all along; perplexity per subword, END counted."""
    tokens = sum(done["tokens"].to_pylist())
    seconds = sum(done["seconds"].to_pylist()) / actors
    log_probability = sum(done["reference_log_probability"].to_pylist())
    return {
        "sentences": done.num_rows,
        "target_tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / max(seconds, 1e-9),
        "perplexity": math.exp(min(-log_probability / max(1, sum(done["reference_tokens"].to_pylist())), 700.0)),
    }
