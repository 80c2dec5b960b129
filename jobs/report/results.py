"""The first section of a report: headline figures, the table of results, and pictures of it beside the paper's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from jobs.durations import duration
from jobs.report.agreement import Difference, rule
from jobs.report.figures import Dot, dot_chart
from jobs.report.row_results import Row
from jobs.report.tables import (
    BASE,
    DASH,
    Result,
    agreement,
    comparable_bleu,
    differences,
    interval,
    mean_of,
    measured,
    millions,
    number,
    scientific,
    signed,
)
from transformer import paper_figures

SAME_SIZE = 0.1  # the paper's count is up to 7 % above that of its own description
SIGNS = {True: ("✓", "yes"), False: ("✗", "no"), None: ("", "")}


@dataclass(frozen=True, kw_only=True)
class Card:
    """One figure, large: what it is, what the paper has beside it, and a few words on how it was measured."""

    label: str
    value: str
    unit: str = ""
    beside: str = ""
    about: str = ""
    lead: bool = False


def headline(found: Sequence[Result], rows: Sequence[Row]) -> list[Card]:
    """For the first row, or for base where there is one."""
    first = next((result for result in found if result.name == BASE), found[0])
    row = next(row for row in rows if paper_figures.plain_name(row.name) == first.name)
    named = f" of {first.name}" if len(found) > 1 else ""
    cards = bleu_cards(first, named, row.parts) if first.f1 is None else f1_cards(first, named, row)
    about = "per subword of the scored set, no smoothing"
    cards.append(Card(label=f"Perplexity{named}", value=measured(first.perplexity), about=about))
    signature = row.text("chrf_signature", "scores") or ""
    cards.append(Card(label=f"chrF{named}", value=measured(first.chrf, 1), about=signature))
    paper = same_model(first)
    theirs = f"paper {millions(paper.parameters)}" if paper and paper.parameters else ""
    cards.append(Card(label=f"Parameters{named}", value=millions(first.parameters), beside=theirs, about=shape(row)))
    per_update = first.seconds / first.updates if first.seconds and first.updates else None
    about = f"{number(first.updates, 0)} updates of {duration(per_update)}"
    cards.append(Card(label=f"Training{named}", value=duration(first.seconds), about=about))
    rate = row.fact("tokens_per_second", "training")
    cards.append(Card(label=f"Rate{named}", value=number(rate, 0), about="target tokens per second, all workers"))
    return [card for card in cards if card.value != DASH]


def same_model(result: Result) -> paper_figures.Figures | None:
    """The paper's figures where the model has the paper's size: a small one of the same row is no match for them."""
    paper = result.paper
    if paper is None or not paper.parameters or not result.parameters:
        return paper
    return paper if abs(result.parameters / paper.parameters - 1) <= SAME_SIZE else None


def bleu_cards(result: Result, named: str, parts: Mapping[str, float]) -> list[Card]:
    """sacreBLEU with its signature and interval, and the paper's protocol with the paper's figure."""
    within = interval(result.bleu)
    return [
        Card(
            label=f"BLEU{named}, sacreBLEU",
            value=measured(result.bleu),
            unit=f"({within})" if within else "",
            beside=", ".join(f"{name.replace('_', ' ')} part {number(value)}" for name, value in parts.items()),
            about=(result.signature or "") + (", 95 % interval by bootstrap" if within else ""),
            lead=True,
        ),
        Card(
            label=f"BLEU{named}, the paper's protocol",
            value=measured(result.bleu_paper),
            beside=f"paper {number(paper.bleu, 1)}" if (paper := same_model(result)) else "",
            about="Moses tokens, compounds split at hyphens, multi-bleu",
        ),
    ]


def f1_cards(result: Result, named: str, row: Row) -> list[Card]:
    """F1 of both searches, and what EVALB makes of the output as it is."""
    low, high = row.fact("f1_low", "scores"), row.fact("f1_high", "scores")
    within = f"({low:.1f} to {high:.1f})" if low is not None and high is not None else ""
    errors, malformed = row.fact("evalb_errors", "scores"), row.fact("malformed_percent", "scores")
    return [
        Card(
            label=f"F1{named}",
            value=measured(result.f1),
            unit=within,
            beside=f"paper {number(result.paper.f1, 1)}" if result.paper else "",
            about="free search, every sentence counts" + (", 95 % interval by bootstrap" if within else ""),
            lead=True,
        ),
        Card(
            label=f"F1{named}, well-formed search",
            value=number(row.fact("f1_well_formed", "scores")),
            about="among trees over the sentence's words only",
        ),
        Card(
            label=f"F1{named}, EVALB's rule",
            value=number(row.fact("f1_evalb", "scores")),
            about=f"{number(errors, 0)} sentences left out as errors",
        ),
        Card(label=f"Malformed{named}", value=number(malformed), unit="%", about="of the free search, repaired"),
    ]


def shape(row: Row) -> str:
    """The model in the paper's symbols."""
    model = row.model.get("model")
    if not isinstance(model, dict):
        return ""
    names = {"layers": "N", "d_model": "d", "d_ff": "d_ff", "num_heads": "h", "dropout": "P_drop"}
    return ", ".join(f"{sign}={model[name]}" for name, sign in names.items() if name in model)


# --- the table ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column of the table: the heading above it and its neighbours, its name, and the text and class of a cell."""

    group: str
    name: str
    cell: Callable[[Result], tuple[str, str]]


def results_table(found: Sequence[Result], table: int | None) -> dict[str, Any]:
    """The paper's columns only where the paper has figures, differences only where there is a base."""
    changes = differences(found)
    columns = columns_for(found, changes, table)
    groups = [(name, list(members)) for name, members in itertools.groupby(columns, key=lambda column: column.group)]
    firsts = {id(members[0]) for _, members in groups}
    edges = [" edge" if id(column) in firsts else "" for column in columns]
    lines = []
    for result in found:
        cells = []
        for column, edge in zip(columns, edges, strict=True):
            text, style = column.cell(result)
            cells.append({"text": text, "style": style + edge})
        name = result.name + (f" ({result.seeds} seeds)" if result.seeds > 1 else "")
        about = f"in the paper: {result.paper.changes}" if result.paper and result.paper.changes else ""
        base = result.name == BASE and len(found) > 1
        lines.append({"name": name, "cells": cells, "base": base, "about": about})
    return {
        "groups": [(name, len(members)) for name, members in groups],
        "columns": [{"name": column.name, "style": edge} for column, edge in zip(columns, edges, strict=True)],
        "lines": lines,
        "notes": notes(found, changes, table),
        "charts": charts(found, changes),
    }


def columns_for(
    found: Sequence[Result], changes: Mapping[str, Mapping[str, Difference]], table: int | None
) -> list[Column]:
    """Every column that has a value in one of the rows."""
    beside = any(result.paper for result in found)

    def paper_cell(read: Callable[[paper_figures.Figures], str]) -> Callable[[Result], tuple[str, str]]:
        return lambda result: (read(result.paper) if result.paper else DASH, "theirs")

    def change_columns(kind: str, title: str) -> list[Column]:
        def of(result: Result) -> Difference | None:
            return changes.get(result.name, {}).get(kind)

        ours = Column(title, "ours", lambda result: (signed(d.ours) if (d := of(result)) else DASH, ""))
        theirs = Column(title, "paper", lambda result: (signed(d.paper) if (d := of(result)) else DASH, "theirs"))
        sign = Column(title, "sign", lambda result: SIGNS[d.agrees] if (d := of(result)) else ("", ""))
        return [ours, theirs, sign] if beside else [ours]

    columns = [Column("Perplexity", "ours", lambda result: (measured(result.perplexity), ""))]
    if table == 3 and beside:
        columns.append(Column("Perplexity", "paper", paper_cell(lambda figures: number(figures.perplexity))))
    columns += change_columns("perplexity", "PPL − base") if changes and table != 2 else []
    if all(result.f1 is not None for result in found):
        columns.append(Column("F1", "ours", lambda result: (measured(result.f1), "")))
        if beside:
            columns.append(Column("F1", "paper", paper_cell(lambda figures: number(figures.f1, 1))))
        return columns + size_columns(beside)
    columns.append(Column("BLEU", "sacreBLEU", lambda result: (measured(result.bleu), "")))
    if any(interval(result.bleu) for result in found):
        columns.append(Column("BLEU", "95 %", lambda result: (interval(result.bleu) or DASH, "theirs")))
    columns.append(Column("BLEU", "paper's way", lambda result: (measured(result.bleu_paper), "")))
    if beside:
        columns.append(Column("BLEU", "paper", paper_cell(lambda figures: number(figures.bleu, 1))))
    columns += change_columns("bleu", "BLEU − base") if changes and table != 2 else []
    columns.append(Column("chrF", "ours", lambda result: (measured(result.chrf, 1), "")))
    return columns + size_columns(beside)


def size_columns(beside: bool) -> list[Column]:
    columns = [Column("Parameters", "ours", lambda result: (millions(result.parameters), ""))]
    if beside:
        theirs = Column("Parameters", "paper", lambda r: (millions(r.paper.parameters) if r.paper else DASH, "theirs"))
        columns.append(theirs)
    columns.append(Column("Training", "updates", lambda result: (number(result.updates, 0), "")))
    columns.append(Column("Training", "time", lambda result: (duration(result.seconds), "")))
    return columns


def notes(found: Sequence[Result], changes: Mapping[str, Mapping[str, Difference]], table: int | None) -> list[str]:
    lines = []
    first = found[0]
    if first.signature:
        lines.append(f"sacreBLEU: {first.signature}.")
    figures = next((result.paper for result in found if result.paper), None)
    if figures:
        lines.append(
            f"The paper's column: {figures.protocol}. The column beside it is ours by the same protocol; sacreBLEU's "
            "own figure for the same words is lower."
        )
    for kind, title in (("bleu", "BLEU"), ("perplexity", "perplexity")):
        agreeing, compared = agreement(changes, kind)
        if compared:
            lines.append(
                f"Against base, {title} moves in the paper's direction in {agreeing} of the {compared} rows "
                "where the paper sees a difference and ours is more than chance."
            )
    if any(result.seeds > 1 for result in found):
        lines.append("± is the standard deviation over the seeds of a row.")
    if any(cell.paper is not None for cells in changes.values() for cell in cells.values()):
        base = next(result for result in found if result.name == BASE)
        lines.append(rule(mean_of(comparable_bleu(base)), "BLEU"))
    return lines


# --- pictures of the table ---------------------------------------------------------------------------------------


def charts(found: Sequence[Result], changes: Mapping[str, Mapping[str, Difference]]) -> list[dict[str, Any]]:
    """BLEU and perplexity against parameters, our differences to base against the paper's; for three rows and up."""
    if len(found) < 3:
        return []
    shown = [chart for chart in (size_chart(found, "bleu"), size_chart(found, "perplexity")) if chart]
    shown += [chart for chart in (change_chart(changes, "bleu"), change_chart(changes, "perplexity")) if chart]
    return shown


def size_chart(found: Sequence[Result], kind: str) -> dict[str, Any] | None:
    name = "BLEU" if kind == "bleu" else "perplexity"
    dots = []
    for result in found:
        figure = comparable_bleu(result) if kind == "bleu" else result.perplexity
        if figure is None or not result.parameters:
            continue
        tip = f"{result.name}\n{name} {measured(figure)}\n{millions(result.parameters)} parameters"
        dots.append(Dot(name=result.name, x=result.parameters, y=figure.value, tip=tip, index=group_index(result.name)))
    if len(dots) < 3:
        return None
    svg = dot_chart(dots, x_label="parameters (log)", y_label=name, log=(True, False))
    return {"name": f"{kind}-by-parameters", "svg": Markup(svg), "caption": f"Ours: {name} against size, by row."}


def change_chart(changes: Mapping[str, Mapping[str, Difference]], kind: str) -> dict[str, Any] | None:
    name = "BLEU" if kind == "bleu" else "perplexity"
    dots = []
    for row, cells in changes.items():
        change = cells.get(kind)
        if change is not None and change.paper is not None:
            tip = f"{row}\nours {signed(change.ours)}\npaper {signed(change.paper)}"
            dots.append(Dot(name=row, x=change.paper, y=change.ours, tip=tip, index=group_index(row)))
    if len(dots) < 3:
        return None
    svg = dot_chart(dots, x_label="paper: difference to base", y_label=f"ours: {name} − base", zero_lines=True)
    caption = f"What each change does to {name}, ours against the paper's: lower left and upper right agree in sign."
    return {"name": f"{kind}-differences", "svg": Markup(svg), "caption": caption}


def group_index(row: str) -> int:
    """A colour for each group of Table 3's rows."""
    return "ABCDE".find(row[:1]) if row[1:2] == "/" else 7


def paper_table(table: int | None, found: Sequence[Result], pair: str) -> dict[str, Any] | None:
    """The paper's own table around our rows: all systems of Table 2 or all parsers of Table 4, with ours below."""
    if table == 4:
        lines = [[parser.name, parser.training, number(parser.f1, 1)] for parser in paper_figures.TABLE_4]
        lines += [[f"ours: {result.name}", DASH, measured(result.f1, 1)] for result in found]
        header = ["parser", "training", "F1, WSJ 23"]
        return {"caption": "Table 4 of the paper, with ours", "header": header, "lines": lines, "open": True}
    if table != 2:
        return None
    lines = []
    for system in paper_figures.TABLE_2:
        cells = [number(system.en_de, 2), number(system.en_fr, 2)]
        lines.append([system.name, *cells, scientific(system.en_de_flops), scientific(system.en_fr_flops)])
    for result in found:
        own = pair if result.name in ("base", "big") else result.name.replace("/", "-").partition("-")[2]
        bleu = measured(comparable_bleu(result))
        at = {"en-de": 1, "en-fr": 2}.get(own)
        cells = [DASH] * 4
        if at:
            cells[at - 1], cells[at + 1] = bleu, scientific(result.flops)
        lines.append([f"ours: {result.name}", *cells])
    header = ["system", "BLEU en-de", "BLEU en-fr", "FLOPs en-de", "FLOPs en-fr"]
    return {"caption": "Table 2 of the paper, with ours", "header": header, "lines": lines, "open": True}
