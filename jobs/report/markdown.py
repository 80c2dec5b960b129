"""The report as Markdown: the same figures as the page, for a pull request or a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.report import trees
from jobs.report.cost import cost_section
from jobs.report.data import counts
from jobs.report.page import Report, again, hint, subtitle, title
from jobs.report.results import headline, notes
from jobs.report.tables import differences, markdown_table, markdown_text, results_markdown


def markdown(report: Report, figures: Sequence[str]) -> str:
    """`figures` are the names of the pictures in figures/."""
    found = report.results
    made = again(report)
    parts = [f"# {markdown_text(title(report))}\n", f"{markdown_text(subtitle(report))}\n", "## Results\n"]
    parts += [_headline(report), results_markdown(found)]
    parts += [f"{markdown_text(note)}\n" for note in notes(found, differences(found), report.config.table)]
    parts += [f"![{name}](figures/{name}.svg)\n" for name in figures]
    if report.samples:
        parts += [
            "## Translations\n",
            *([f"{markdown_text(hint(report))}\n"] if hint(report) else []),
            _samples(report),
        ]
    if report.trees:
        table = trees.summary(report.rows[0])
        parts += ["## Trees\n", markdown_table(table["header"], table["lines"]), _trees(report)]
    parts += ["## Data\n", markdown_table(["", "training data"], counts(report.corpus, report.shards))]
    cost = cost_section(report.rows, report.on)["table"]
    parts += ["## Cost\n", markdown_table(cost["header"], cost["lines"])]
    parts += ["## Run it again\n", f"```\n{made['commands']}\n```\n"]
    parts += [markdown_table(made["steps"]["header"], made["steps"]["lines"]), f"{markdown_text(made['versions'])}\n"]
    return "\n".join(parts)


def _headline(report: Report) -> str:
    lines = [
        [card.label, f"{card.value} {card.unit}".strip(), card.beside, card.about]
        for card in headline(report.results, report.rows)
    ]
    return markdown_table(["", "ours", "paper", ""], lines)


def _trees(report: Report) -> str:
    lines = [
        [kind, f"{sample.f1:.1f}", str(sample.gold), str(sample.parse)]
        for kind, found in report.trees.items()
        for sample in found[:3]
    ]
    return markdown_table(["", "F1", "the treebank", "ours"], lines)


def _samples(report: Report) -> str:
    lines = [
        [kind, sample.source, sample.reference, sample.hypothesis, f"{sample.chrf:.1f}"]
        for kind, found in report.samples.items()
        for sample in found[:3]
    ]
    return markdown_table(["", "source", "reference", "ours", "chrF"], lines)
