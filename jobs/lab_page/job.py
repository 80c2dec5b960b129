"""The lab's page: every experiment as a short paper. Question, set-up, figures, verdicts; data as CSV beside it.

Reads   results.json of every experiment and seed
Writes  lab.html (self-contained), figures/*.svg, data/*.csv, verdicts.csv
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from jobs.configs import Resources
from jobs.events import Facts, Log
from jobs.lab.bench import Chart, Row
from jobs.lab.claims import Figures, Finding, findings, spread
from jobs.lab.configs import LabPageConfig
from jobs.lab.job import EXPERIMENTS, RESULTS, Experiment, as_csv
from jobs.lab.questions import QUESTIONS
from jobs.report.figures import standalone
from jobs.report.pages import render
from jobs.storage.artifacts import RECORD, Artifact

STYLES = {"holds": "yes", "does not hold": "no", "not shown here": "muted"}


@dataclass(frozen=True)
class Section:
    """One experiment with all its seeds."""

    experiment: Experiment
    setup: str
    notes: Sequence[str]
    figures: Sequence[Figures]  # by seed
    tables: dict[str, list[Row]]  # means over seeds
    seconds: float

    @property
    def findings(self) -> list[Finding]:
        return findings(self.experiment.claims, self.figures)

    @property
    def charts(self) -> list[Chart]:
        return self.experiment.draw(self.tables)


def run(config: LabPageConfig, *, experiments: tuple[Artifact, ...], out: Artifact, on: Resources, log: Log) -> Facts:
    """Facts: how many claims hold, do not hold, are not shown here."""
    groups = [experiments[start : start + config.seeds] for start in range(0, len(experiments), config.seeds)]
    sections = [read(group) for group in groups]
    write(config, sections, out)
    verdicts = [finding.ruling.verdict for section in sections for finding in section.findings]
    return {
        "claims": len(verdicts),
        "hold": verdicts.count("holds"),
        "do_not_hold": verdicts.count("does not hold"),
        "not_shown": verdicts.count("not shown here"),
    }


def read(seeds: Sequence[Artifact]) -> Section:
    results = [artifact.read_json(RESULTS) for artifact in seeds]
    by_name = {experiment.name: experiment for experiment in EXPERIMENTS.values()}
    records = [artifact.read_json(RECORD) for artifact in seeds if artifact.exists(RECORD)]
    return Section(
        experiment=by_name[results[0]["experiment"]],
        setup=results[0]["setup"],
        notes=results[0]["notes"],
        figures=[result["figures"] for result in results],
        tables={name: mean_rows([result["tables"][name] for result in results]) for name in results[0]["tables"]},
        seconds=sum(float(record["made"]["seconds"]) for record in records),
    )


def mean_rows(tables: Sequence[Sequence[Row]]) -> list[Row]:
    """Cell by cell the mean over seeds where it is a number in all of them, else the first seed's."""
    if len(tables) == 1 or len({len(table) for table in tables}) > 1:
        return list(tables[0])
    rows: list[Row] = []
    for same in zip(*tables, strict=True):
        cells: dict[str, Any] = {}
        for name, first in same[0].items():
            values = [row.get(name) for row in same]
            numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
            cells[name] = sum(numbers) / len(numbers) if len(numbers) == len(values) else first
        rows.append(cells)
    return rows


def write(config: LabPageConfig, sections: Sequence[Section], out: Artifact) -> None:
    for section in sections:
        name = section.experiment.name
        for table, rows in section.tables.items():
            out.write_text(csv_name(section, table), as_csv(rows))
        for number, chart in enumerate(section.charts, 1):
            out.write_text(f"figures/{name}-{number}.svg", standalone(chart.svg))
    out.write_text("verdicts.csv", as_csv([line for section in sections for line in verdict_lines(section)]))
    out.write_text("lab.html", page(config, sections))


def csv_name(section: Section, table: str) -> str:
    return f"data/{section.experiment.name}-{table}.csv"


def verdict_lines(section: Section) -> list[Row]:
    return [
        {
            "experiment": section.experiment.name,
            "claim": finding.claim.says,
            "section": finding.claim.section,
            "measured": finding.ruling.measured,
            "verdict": finding.ruling.verdict,
            "rule": finding.claim.rule,
            "seeds": f"{finding.agree} of {finding.seeds}",
        }
        for finding in section.findings
    ]


def page(config: LabPageConfig, sections: Sequence[Section]) -> str:
    many = config.seeds > 1
    described = [shown(section, many) for section in sections]
    verdicts = [line["verdict"] for section in described for line in section["verdicts"]]
    counted = ", ".join(
        f"{verdicts.count(verdict)} {words}" for verdict, words in COUNTS.items() if verdict in verdicts
    )
    parts = [
        f"{len(verdicts)} claims: {counted}",
        "a quick look: small sizes, so trust the full run" if config.quick else "",
        f"means of {config.seeds} seeds" if many else "",
    ]
    return render("lab.html.j2", title="The lab: the paper's mechanisms, measured", sections=described,
                  seeds=config.seeds, subtitle=" · ".join(part for part in parts if part))  # fmt: skip


COUNTS = {"holds": "hold", "does not hold": "do not hold", "not shown here": "not shown here at this size"}


def shown(section: Section, many: bool) -> dict[str, Any]:
    question = QUESTIONS[section.experiment.name]
    lines = [{**line, "style": STYLES[line["verdict"]]} for line in verdict_lines(section)]
    return {
        "name": section.experiment.name,
        "title": question.title,
        "question": question.question,
        "paper": question.paper,
        "about": section.experiment.about,
        "setup": section.setup,
        "notes": section.notes,
        "verdicts": lines,
        "charts": [
            {
                "title": chart.title,
                "svg": Markup(chart.svg),
                "caption": chart.caption,
                "csv": csv_name(section, chart.table),
            }
            for chart in section.charts
        ],
        "spread": spread_words(section) if many else "",
        "seconds": round(section.seconds),
    }


def spread_words(section: Section) -> str:
    """The figures that differ most between seeds, in words."""
    means = {name: sum(f[name] for f in section.figures) / len(section.figures) for name in spread(section.figures)}
    relative = {name: value / abs(means[name]) for name, value in spread(section.figures).items() if means[name]}
    widest = sorted(relative, key=lambda name: -relative[name])[:3]
    return "; ".join(f"{name} {means[name]:.3g} ± {spread(section.figures)[name]:.2g}" for name in widest)
