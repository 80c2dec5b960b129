"""The files of a report, from the results of its rows: neither Ray nor torch is needed for this part.

Reads   every result of every row      Writes  report.html (self-contained), report.md, results.csv, figures/*.svg
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow.parquet as pq

from jobs.configs import ReportConfig, Resources
from jobs.report.attention import Picture, lines_svg, matrix_svg, sharpest
from jobs.report.figures import standalone
from jobs.report.markdown import markdown
from jobs.report.page import Report, page, still_curves
from jobs.report.results import charts
from jobs.report.row_results import Inputs, Sample, choose_samples, language_pair, read_optional, read_row
from jobs.report.tables import differences, results_csv
from jobs.report.tree_pictures import errors_svg
from jobs.report.trees import TreeSample, by_length
from jobs.storage.artifacts import Artifact
from jobs.storage.object_store import filesystem

STILL_TREES = 3  # of each kind, as files


def gather(
    config: ReportConfig,
    inputs: Mapping[str, Inputs],
    samples: Sequence[Sample] = (),
    pictures: Sequence[Picture] = (),
    others: Mapping[str, Mapping[int, str]] | None = None,
    on: Resources | None = None,
    trees: Mapping[str, Sequence[TreeSample]] | None = None,
) -> Report:
    """What the page is made from, read from the results of the rows, which `inputs` has by name."""
    first = next(iter(inputs.values()))
    return Report(
        config=config,
        rows=[read_row(name, row, config.table, language_pair(row["corpora"])) for name, row in inputs.items()],
        pair=language_pair(first["corpora"]),
        corpus=read_optional(first["corpora"], "about.json"),
        shards=read_optional(first["shards"], "about.json"),
        samples=choose_samples(samples, config.samples) if samples else {},
        others=others or {},
        pictures=pictures,
        on=on,
        trees=trees or {},
    )


def write(report: Report, out: Artifact) -> None:
    figures = still_figures(report)
    for name, svg in figures.items():
        out.write_text(f"figures/{name}.svg", standalone(svg))
    out.write_text("results.csv", results_csv(report.results))
    out.write_text("report.md", markdown(report, list(figures)))
    out.write_text("report.html", page(report))


def still_figures(report: Report) -> dict[str, str]:
    """Pictures as files, for Markdown and for slides."""
    found = {"learning": still_curves(report.rows)}
    found |= {chart["name"]: str(chart["svg"]) for chart in charts(report.results, differences(report.results))}
    if report.trees:
        found["f1-by-length"] = by_length(report.rows[0])
        for kind, samples in report.trees.items():
            drawn = [(sample.line + 1, errors_svg(sample.parse, sample.gold)) for sample in samples[:STILL_TREES]]
            found |= {f"tree-{kind.lower().replace(' ', '-')}-line-{line}": svg for line, svg in drawn}
    if report.pictures:
        shown = report.pictures[0]
        for kind in ("cross", "encoder"):
            layer, head = sharpest(shown, kind)
            found[f"attention-{kind}"] = matrix_svg(shown, kind, layer, head)
            found[f"attention-{kind}-lines"] = lines_svg(shown, kind, layer, [head])
    return {name: svg for name, svg in found.items() if svg}


def read_lines(translations: Artifact, lines: Sequence[int], sources: Mapping[int, str]) -> dict[int, str]:
    """What another row made of the same sentences; nothing where its line is another sentence."""
    store, path = filesystem(translations, "translations.parquet")
    table = pq.read_table(path, filesystem=store, columns=["line", "source", "hypothesis"])
    wanted = set(lines)
    return {
        row["line"]: row["hypothesis"] or ""
        for row in table.to_pylist()
        if row["line"] in wanted and sources.get(row["line"]) == row["source"]
    }
