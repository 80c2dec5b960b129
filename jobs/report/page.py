"""The page of a report: what each section says, as plain values for the template templates/report.html.j2.

Text stays text here and is escaped by the template; only pictures that we drew are Markup.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from jobs.configs import ReportConfig, Resources
from jobs.durations import duration
from jobs.language_names import language_name
from jobs.report import figures, pages, trees
from jobs.report.attention import KINDS, Picture, entropies, still, viewer_data
from jobs.report.cost import cost_section
from jobs.report.data import data_section
from jobs.report.results import headline, paper_table, results_table
from jobs.report.row_results import Json, Row, Sample
from jobs.report.tables import Result, number, results
from transformer import paper_figures

LEARNED_NOTHING = 2.0  # BLEU below which the translations say nothing but that training was too short or went wrong
SETTINGS = {  # the section of `--set` that a step's settings belong to; those of a corpus go by its recipe's names
    "vocabulary": "vocabulary.",
    "shards": "shards.",
    "training": "",
    "models": "average.",
    "translations": "translation.",
    "scores": "scoring.",
}
MOST_POINTS = 500  # of a curve in the page; a longer one is thinned
METRICS = (
    {"key": "dev_perplexity", "name": "Perplexity on the development set", "unit": "per subword", "log": True},
    {"key": "loss", "name": "Training loss", "unit": "nats per subword, smoothed labels", "log": False},
    {"key": "dev_loss", "name": "Loss on the development set", "unit": "nats per subword", "log": False},
    {"key": "learning_rate", "name": "Learning rate", "unit": "", "log": False},
    {"key": "gradient_norm", "name": "Gradient norm", "unit": "", "log": True},
    {"key": "tokens_per_second", "name": "Target tokens per second", "unit": "all workers", "log": False},
    {"key": "padding_share", "name": "Padding", "unit": "share of the positions", "log": False},
)


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that a page is made from."""

    config: ReportConfig
    rows: Sequence[Row]
    pair: str
    corpus: Json = field(default_factory=dict)  # about.json of the first row's training corpus
    shards: Json = field(default_factory=dict)  # about.json of the first row's shards
    samples: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    others: Mapping[str, Mapping[int, str]] = field(default_factory=dict)  # translations of further rows, by line
    pictures: Sequence[Picture] = ()
    on: Resources | None = None  # the profile that this run was made on
    trees: Mapping[str, Sequence[trees.TreeSample]] = field(default_factory=dict)

    @property
    def results(self) -> list[Result]:
        return results(self.rows)


def page(report: Report) -> str:
    sections = {
        "curves": curves(report.rows),
        "attention": attention(report.pictures),
        "samples": samples(report),
        "trees": trees.section(report.trees, report.rows[0]),
    }
    names = [("results", "Results")]
    names += [("learning", "Learning")] if sections["curves"] else []
    names += [("where", "Attention")] if sections["attention"] else []
    names += [("translations", "Translations")] if sections["samples"] else []
    names += [("trees", "Trees")] if sections["trees"] else []
    names += [("data", "Data"), ("cost", "Cost"), ("again", "Run it again")]
    return pages.render(
        "report.html.j2",
        title=title(report),
        subtitle=subtitle(report),
        sections=names,
        cards=headline(report.results, report.rows),
        results=results_table(report.results, report.config.table),
        paper_table=paper_table(report.config.table, report.results, report.pair),
        data=data_section(report.corpus, report.shards),
        cost=cost_section(report.rows, report.on),
        again=again(report),
        footer="Attention Is All You Need (arXiv 1706.03762), reproduced end to end on Ray by attn. "
        "Every figure on this page was read from the results named above; the paper's are marked as the paper's.",
        **sections,
    )


def title(report: Report) -> str:
    """The recipe's title; of a table of which only some rows were asked for, how many."""
    if report.config.table != 3:
        return report.config.title
    names = {result.name for result in report.results}
    known, own = len(names & paper_figures.TABLE_3.keys()), len(names - paper_figures.TABLE_3.keys())
    if known == len(paper_figures.TABLE_3) and not own:
        return report.config.title
    more = f" and {own} more" if own else ""
    return f"{report.config.title.partition(':')[0]}: {known} of its {len(paper_figures.TABLE_3)} rows{more}"


def subtitle(report: Report) -> str:
    source, _, target = report.pair.partition("-")
    parts = [f"Recipe {report.config.recipe}"]
    if "?" not in report.pair:
        parts.append(f"{language_name(source)} to {language_name(target)}")
    lines = report.rows[0].fact("lines", "scores") or report.rows[0].fact("sentences", "translations")
    parts += [f"{lines:,.0f} sentences scored"] if lines else []
    parts += [f"{len(report.rows)} rows"] if len(report.rows) > 1 else []
    when = [str(made["when"]) for row in report.rows for made in made_of(row) if made.get("when")]
    return " · ".join([*parts, *([max(when)[:10]] if when else [])])


def made_of(row: Row) -> list[Json]:
    return [record["made"] for record in row.records.values() if isinstance(record.get("made"), Mapping)]


# --- curves ------------------------------------------------------------------------------------------------------


def curves(rows: Sequence[Row]) -> dict[str, Any] | None:
    """The data of the chart, and a still picture of it for where scripts do not run."""
    drawn = [row for row in rows if row.curve]
    known = [metric for metric in METRICS if any(metric["key"] in point for row in drawn for point in row.curve)]
    if not known:
        return None
    lines = []
    for row in drawn:
        points = thinned(row.curve)
        values = {str(metric["key"]): [point.get(str(metric["key"])) for point in points] for metric in known}
        lines.append({"name": row.name, "updates": [point["update"] for point in points], "values": values})
    return {
        "text": "What the model knew after so many updates. Move over the chart to read values off it"
        + ("; the names below switch rows on and off." if len(drawn) > 1 else "."),
        "data": {"metrics": known, "rows": lines, "dashes": figures.DASHES},
        "svg": Markup(still_curves(rows)),
    }


def thinned(curve: Sequence[Mapping[str, float]], most: int = MOST_POINTS) -> list[Mapping[str, float]]:
    """At most about so many points, evenly spread; those with a look at the development set all stay."""
    step = max(1, len(curve) // most)
    last = len(curve) - 1
    kept = [point for at, point in enumerate(curve) if at % step == 0 or at == last or "dev_loss" in point]
    return kept if len(kept) <= 2 * most else kept[:: len(kept) // most]


def still_curves(rows: Sequence[Row]) -> str:
    for metric in METRICS[:2]:
        key = str(metric["key"])
        lines = [(row.name, [(point["update"], point[key]) for point in row.curve if key in point]) for row in rows]
        lines = [(name, points) for name, points in lines if points]
        if lines:
            shown = [figures.Line(name, points) for name, points in lines]
            log = (False, bool(metric["log"]))
            return figures.line_chart(shown, x_label="updates", y_label=str(metric["name"]), log=log)
    return ""


# --- attention and translations ----------------------------------------------------------------------------------


def attention(pictures: Sequence[Picture]) -> dict[str, Any] | None:
    if not pictures:
        return None
    lines = [
        [f"{KINDS[kind]}, layer {layer}", *[f"{value:.2f}" for value in heads]]
        for kind, layers in entropies(pictures).items()
        for layer, heads in enumerate(layers, 1)
    ]
    heads = max(len(line) for line in lines) - 1
    return {
        "text": "Where each head looks while it reads and writes, as in the paper's figures 3 to 5: a row is a subword "
        "that asks (from the decoder: the one being written), a column one that is looked at. Each small square is a "
        "head: choose one.",
        "still": still(pictures),
        "data": viewer_data(pictures),
        "entropies": {"header": ["", *[f"head {head}" for head in range(1, heads + 1)]], "lines": lines},
    }


def samples(report: Report) -> dict[str, Any] | None:
    if not report.samples:
        return None
    source, _, target = report.pair.partition("-")
    groups = [
        {"name": name, "sentences": [_sample(sample, report.others) for sample in found]}
        for name, found in report.samples.items()
    ]
    rows = f" by {report.rows[0].name}" if len(report.rows) > 1 else ""
    return {
        "text": f"Sentences of the scored set, translated{rows}: the worst and the best by chrF of the sentence, and "
        "some at random. Words that are not the reference's are marked; another wording need not be wrong.",
        "hint": hint(report),
        "source_language": source if "?" not in source else "",
        "target_language": target if "?" not in target else "",
        "groups": groups,
    }


def hint(report: Report) -> str:
    """What to do about a model that learned nothing; empty for every other."""
    row = report.rows[0]
    if row.bleu is None or row.bleu >= LEARNED_NOTHING:
        return ""
    updates = f" in {row.updates:,.0f} updates" if row.updates else ""
    return (
        f"With BLEU {row.bleu:.1f} this model has learned next to nothing{updates}: these sentences are noise. See in "
        "the learning curve whether the perplexity was still falling (then train longer: --set training.steps=...), "
        "never fell (a smaller --set training.learning_rate=..., a longer warm-up), or fell without translating "
        "(too little text)."
    )


def _sample(sample: Sample, others: Mapping[str, Mapping[int, str]]) -> dict[str, Any]:
    further = [(name, texts[sample.line]) for name, texts in others.items() if sample.line in texts]
    return {
        "line": sample.line + 1,
        "part": sample.part,
        "source": sample.source,
        "reference": sample.reference,
        "words": compared(sample.hypothesis, sample.reference),
        "chrf": number(sample.chrf, 1),
        "bleu": number(sample.bleu, 1),
        "others": further,
    }


def compared(ours: str, reference: str) -> list[tuple[str, bool]]:
    """The words of ours in runs, each with whether it differs from the reference."""
    words = ours.split()
    matcher = difflib.SequenceMatcher(a=reference.split(), b=words, autojunk=False)
    runs = [(words[low:high], kind != "equal") for kind, _, _, low, high in matcher.get_opcodes() if high > low]
    return [(" ".join(run), differs) for run, differs in runs] or [("(nothing)", True)]


# --- how it was made ---------------------------------------------------------------------------------------------


def again(report: Report) -> dict[str, Any]:
    recipe = report.config.recipe
    made_by = commands_of(report.rows)
    commands = [*(made_by or [f"attn run {recipe}"]), f"attn results {recipe}"]
    use = "parse" if report.trees else "translate"
    commands += [f'attn {use} {recipe} "..."'] if len(report.rows) == 1 else []
    return {
        "commands": "\n".join(commands),
        "text": "The commands that made these scores, as they were typed; what is done is found done and only what is "
        "missing is made."
        if made_by
        else "What is done is found done and only what is missing is made. Settings that were given with --set must "
        "be given again; all that are not the paper's are listed below.",
        "steps": steps_table(report.rows),
        "settings": settings_table(report.rows),
        "versions": versions(report.rows),
    }


def commands_of(rows: Sequence[Row]) -> list[str]:
    """The commands whose runs made the scores of the rows, each once, in the order of the rows."""
    made = [row.records.get("scores", {}).get("made", {}).get("command") for row in rows]
    return list(dict.fromkeys(str(command) for command in made if command))


def steps_table(rows: Sequence[Row]) -> dict[str, Any]:
    """Every result the page stands on, once."""
    lines: dict[str, list[str]] = {}
    users: dict[str, list[str]] = {}
    for row in rows:
        for step, record in row.records.items():
            key = f"{record.get('stage', step)}/{record.get('fingerprint', '?')}"
            made = record.get("made", {})
            seconds = made.get("seconds")
            users.setdefault(key, []).append(row.name)
            if key in lines:
                lines[key][1] = f"{len(users[key])} rows"
                continue
            when = str(made.get("when", "–")).replace("T", " ")[:16]
            took = duration(float(seconds)) if isinstance(seconds, int | float) else "–"
            lines[key] = [key, row.name, took, when, str(made.get("profile", "–")), str(made.get("commit") or "–")]
    header = ["result", "row", "took", "made", "profile", "commit"]
    return {"header": header, "lines": list(lines.values())}


def settings_table(rows: Sequence[Row]) -> dict[str, Any] | None:
    """The settings that differ from their defaults, which are the paper's: those of all rows, then each row's own."""
    by_row = [row_settings(row) for row in rows]
    common = {item for item in by_row[0].items() if all(item in own.items() for own in by_row)}
    lines = [["all rows" if len(rows) > 1 else rows[0].name, name, value] for name, value in sorted(common)]
    for row, own in zip(rows, by_row, strict=True):
        lines += [[row.name, name, value] for name, value in sorted(own.items()) if (name, value) not in common]
    return {"header": ["row", "setting", "value"], "lines": lines} if lines else None


def row_settings(row: Row) -> dict[str, str]:
    found: dict[str, str] = {}
    for step, record in row.records.items():
        for name, value in flattened(record.get("config", {})):
            short = name.removeprefix("search.")
            found[f"{SETTINGS[step]}{short}" if step in SETTINGS else f"{step}: {name}"] = value
    return found


def flattened(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        inner = [flattened(item, f"{prefix}.{name}" if prefix else str(name)) for name, item in value.items()]
        return [pair for pairs in inner for pair in pairs if not pair[0].endswith("class")]
    text = str(value)
    return [(prefix, text if len(text) <= 200 else text[:197] + "…")]


def versions(rows: Sequence[Row]) -> str:
    """Of Python and the libraries; where the steps were made with several, all of them."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for made in made_of(row):
            for name, version in made.get("versions", {}).items():
                if str(version) not in found.setdefault(str(name), []):
                    found[str(name)].append(str(version))
    return " · ".join(f"{name} {' and '.join(values)}" for name, values in found.items()) or "not recorded"
