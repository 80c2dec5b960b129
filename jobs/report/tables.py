"""The results as tables: our figures, the paper's beside them, differences to base on both sides (Tables 2 and 3).

One list of `Result`s makes the page's table, the Markdown and the CSV, so that they cannot disagree.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jobs.report.agreement import Bleu, Difference, Mean, bleu_difference, difference
from jobs.report.row_results import Row
from transformer import paper_figures

DASH = "–"
BASE = "base"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured figure: the mean over the seeds it was measured with, and their standard deviation if several."""

    value: float
    spread: float | None = None
    seeds: int = 1
    low: float | None = None  # 95 % interval by bootstrap over the test set, single runs only
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Result:
    """A line of the table; several seeds of a row are one line."""

    name: str
    seeds: int
    paper: paper_figures.Figures | None
    perplexity: Figure | None
    bleu: Figure | None
    bleu_paper: Figure | None
    chrf: Figure | None
    f1: Figure | None  # of parsing, Table 4
    parameters: float | None
    updates: float | None
    seconds: float | None
    flops: float | None
    signature: str | None
    fingerprint: str


def results(rows: Sequence[Row]) -> list[Result]:
    """The lines of the table, in the order of the rows."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(paper_figures.plain_name(row.name), []).append(row)
    return [_result(name, members) for name, members in groups.items()]


def _result(name: str, rows: Sequence[Row]) -> Result:
    first = rows[0]

    def figure(read: Callable[[Row], float | None]) -> Figure | None:
        values = [value for value in map(read, rows) if value is not None]
        if not values:
            return None
        spread = statistics.stdev(values) if len(values) > 1 else None
        return Figure(value=statistics.fmean(values), spread=spread, seeds=len(values))

    bleu = figure(lambda row: row.bleu)
    if bleu is not None and len(rows) == 1:
        low, high = first.fact("bleu_low", "scores"), first.fact("bleu_high", "scores")
        bleu = Figure(value=bleu.value, low=low, high=high)
    return Result(
        name=name,
        seeds=len(rows),
        paper=first.paper,
        perplexity=figure(lambda row: row.perplexity),
        bleu=bleu,
        bleu_paper=figure(lambda row: row.bleu_paper),
        chrf=figure(lambda row: row.fact("chrf", "scores")),
        f1=figure(lambda row: row.fact("f1", "scores")),
        parameters=first.parameters,
        updates=first.updates,
        seconds=mean([row.train_seconds for row in rows]),
        flops=mean([row.fact("flops", "training") for row in rows]),
        signature=first.text("bleu_signature", "scores"),
        fingerprint=str(first.records.get("scores", {}).get("fingerprint", "")),
    )


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


# --- differences to base -----------------------------------------------------------------------------------------


def differences(found: Sequence[Result]) -> dict[str, dict[str, Difference]]:
    """By row: the differences to base in `bleu` (the paper's protocol where we have it) and `perplexity`."""
    base = next((result for result in found if result.name == BASE), None)
    if base is None:
        return {}
    table: dict[str, dict[str, Difference]] = {}
    for result in found:
        if result is base:
            continue
        cells = {
            "bleu": bleu_difference(bleu_of(result), bleu_of(base)),
            "perplexity": difference(
                mean_of(result.perplexity), mean_of(base.perplexity), paper_perplexity(result), paper_perplexity(base)
            ),
        }
        table[result.name] = {kind: cell for kind, cell in cells.items() if cell is not None}
    return table


def bleu_of(result: Result) -> Bleu:
    return Bleu(
        sacrebleu=mean_of(result.bleu),
        paper_protocol=mean_of(result.bleu_paper),
        paper=result.paper.bleu if result.paper else None,
    )


def mean_of(figure: Figure | None) -> Mean | None:
    return None if figure is None else Mean(value=figure.value, spread=figure.spread, seeds=figure.seeds)


def paper_perplexity(result: Result) -> float | None:
    return result.paper.perplexity if result.paper else None


def comparable_bleu(result: Result) -> Figure | None:
    """The BLEU that may stand beside the paper's: by its protocol, else sacreBLEU's."""
    return result.bleu_paper or result.bleu


def agreement(table: Mapping[str, Mapping[str, Difference]], kind: str) -> tuple[int, int]:
    """How many rows move in the paper's direction, of how many that have a sign."""
    signs = [cells[kind].agrees for cells in table.values() if kind in cells and cells[kind].agrees is not None]
    return sum(1 for agrees in signs if agrees), len(signs)


# --- words for figures -------------------------------------------------------------------------------------------


def number(value: float | None, digits: int = 2) -> str:
    return DASH if value is None else f"{value:,.{digits}f}"


def signed(value: float | None, digits: int = 2) -> str:
    if value is None:
        return DASH
    text = f"{value:+.{digits}f}"
    return text.replace("-", "−") if float(text) != 0 else f"{0:.{digits}f}"


def measured(figure: Figure | None, digits: int = 2) -> str:
    if figure is None:
        return DASH
    spread = "" if figure.spread is None else f" ± {figure.spread:.{digits}f}"
    return number(figure.value, digits) + spread


def interval(figure: Figure | None, digits: int = 1) -> str:
    if figure is None or figure.low is None or figure.high is None:
        return ""
    return f"{figure.low:.{digits}f} to {figure.high:.{digits}f}"


def millions(value: float | None) -> str:
    """A count of parameters: 65.0M, 0.94M."""
    if value is None:
        return DASH
    return f"{value / 1e6:,.1f}M" if value >= 1e7 else f"{value / 1e6:.2f}M"


def scientific(value: float | None) -> str:
    """3.3·10¹⁸"""
    if not value:
        return DASH
    mantissa, _, power = f"{value:.1e}".partition("e")
    return f"{mantissa}·10{str(int(power)).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


# --- Markdown and CSV --------------------------------------------------------------------------------------------


def markdown_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Cells are text: what Markdown or HTML would take for markup is written so that it is not."""
    rows = [header, ["---", *["---:"] * (len(header) - 1)], *[[markdown_text(cell) for cell in line] for line in lines]]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def markdown_text(text: str) -> str:
    for mark in "\\`*_[]<>|#":
        text = text.replace(mark, "\\" + mark if mark not in "<>" else {"<": "&lt;", ">": "&gt;"}[mark])
    return " ".join(text.split())


def results_markdown(found: Sequence[Result]) -> str:
    if all(result.f1 is not None for result in found):
        return f1_markdown(found)
    beside = any(result.paper for result in found)
    changes = differences(found)
    header = ["row", "PPL", "BLEU (sacreBLEU)", "BLEU (paper's protocol)", "chrF", "parameters", "updates"]
    header += ["paper PPL", "paper BLEU", "ΔBLEU ours", "ΔBLEU paper"] if beside else []
    lines = []
    for result in found:
        line = [result.name, measured(result.perplexity), measured(result.bleu), measured(result.bleu_paper)]
        line += [measured(result.chrf, 1), millions(result.parameters), number(result.updates, 0)]
        if beside:
            change = changes.get(result.name, {}).get("bleu")
            line += [number(paper_perplexity(result))]
            line += [number(result.paper.bleu if result.paper else None)]
            line += [signed(change.ours if change else None), signed(change.paper if change else None, 1)]
        lines.append(line)
    return markdown_table(header, lines)


def f1_markdown(found: Sequence[Result]) -> str:
    header = ["row", "PPL", "F1", "paper F1", "parameters", "updates"]
    lines = [
        [
            result.name,
            measured(result.perplexity),
            measured(result.f1),
            number(result.paper.f1 if result.paper else None, 1),
            millions(result.parameters),
            number(result.updates, 0),
        ]
        for result in found
    ]
    return markdown_table(header, lines)


def results_csv(found: Sequence[Result]) -> str:
    """Plain numbers, one line per row; empty where there is none."""
    text = io.StringIO()
    changes = differences(found)
    writer: csv.DictWriter[str] | None = None
    for result in found:
        change = changes.get(result.name, {})
        line: dict[str, str | float | None] = {"row": result.name, "seeds": result.seeds}
        for name in ("perplexity", "bleu", "bleu_paper", "chrf", "f1"):
            figure: Figure | None = getattr(result, name)
            line[name] = figure.value if figure else None
            line[f"{name}_spread"] = figure.spread if figure else None
        line |= {"bleu_low": result.bleu.low if result.bleu else None}
        line |= {"bleu_high": result.bleu.high if result.bleu else None, "bleu_signature": result.signature}
        line |= {name: getattr(result, name) for name in ("parameters", "updates", "seconds", "flops")}
        for name in ("perplexity", "bleu", "parameters", "flops"):
            line[f"paper_{name}"] = getattr(result.paper, name) if result.paper else None
        for kind in ("bleu", "perplexity"):
            line[f"{kind}_minus_base"] = change[kind].ours if kind in change else None
            line[f"paper_{kind}_minus_base"] = change[kind].paper if kind in change else None
        line["fingerprint"] = result.fingerprint
        if writer is None:
            writer = csv.DictWriter(text, list(line), lineterminator="\n")
            writer.writeheader()
        writer.writerow({name: f"{value:.10g}" if isinstance(value, float) else value for name, value in line.items()})
    return text.getvalue()
