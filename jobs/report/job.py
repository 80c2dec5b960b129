"""One page that says what came out, beside the paper, and how to get it again; the same as Markdown and CSV.

Reads   every result of every row      Writes  report.html (self-contained), report.md, results.csv, figures/*.svg
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ray

from jobs.configs import ReportConfig, Resources
from jobs.errors import UserError
from jobs.events import Facts, Log, Note, Progress
from jobs.report import trees
from jobs.report.attention import Picture, entropy_facts, picture
from jobs.report.row_results import Inputs, Sample, attention_sentences, choose_samples, read_samples
from jobs.report.write import gather, read_lines, write
from jobs.storage.artifacts import Artifact
from transformer.translator import Translator


def run(
    config: ReportConfig,
    *,
    rows: Sequence[Inputs],
    out: Artifact,
    on: Resources,
    log: Log,
) -> Facts:
    """Facts: rows, bleu and perplexity of the first row, and the attention entropy of its heads in bits."""
    log(Progress(0, 3, "parts", "reading"))
    if len(rows) != len(config.rows) or not rows:
        raise UserError(f"The report has {len(config.rows)} names of rows for {len(rows)} rows of results.")
    inputs = dict(zip(config.rows, rows, strict=True))
    samples, pictures, others = look_closely(config, inputs, log)
    drawn, scores = {}, rows[0]["scores"]
    if trees.has_trees(scores):
        drawn, samples = trees.read_samples(scores, config.samples), []
    report = gather(config, inputs, samples, pictures, others, on, drawn)
    log(Progress(2, 3, "parts", "writing"))
    write(report, out)
    log(Note(f"The report is {out.at('report.html')}"))
    first = report.rows[0]
    facts: dict[str, int | float | str] = {"rows": len(report.rows), **entropy_facts(pictures)}
    known = (("bleu", first.bleu), ("f1", first.fact("f1", "scores")), ("perplexity", first.perplexity))
    facts |= {name: value for name, value in known if value}
    return facts


# --- inside Ray tasks --------------------------------------------------------------------------------------------


def look_closely(
    config: ReportConfig, inputs: Mapping[str, Inputs], log: Log
) -> tuple[list[Sample], list[Picture], dict[str, dict[int, str]]]:
    """Sentence scores, and the first model's attention, where there is a CPU for them."""
    (_, first), *further = inputs.items()
    samples: list[Sample] = ray.get(_samples.remote(first["translations"]))
    lines = [sample.line for kind in choose_samples(samples, config.samples).values() for sample in kind]
    log(Progress(1, 3, "parts", "attention"))
    pictures: list[Picture] = ray.get(_pictures.remote(first["models"], attention_sentences(samples)))
    others = {
        name: read_lines(row["translations"], lines, {sample.line: sample.source for sample in samples})
        for name, row in further
    }
    return samples, pictures, {name: texts for name, texts in others.items() if texts}


@ray.remote(num_cpus=1)
def _samples(translations: Artifact) -> list[Sample]:
    return read_samples(translations)


@ray.remote(num_cpus=1)
def _pictures(model: Artifact, sentences: Sequence[str]) -> list[Picture]:
    return attention_of(model, sentences)


def attention_of(model: Artifact, sentences: Sequence[str]) -> list[Picture]:
    """The attention of a model directory, wherever it is kept, over some sentences."""
    with model.directory() as directory:
        translator = Translator.load(directory)
        return [picture(translator.attention(text)) for text in sentences]
