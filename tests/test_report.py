"""The report: the paper beside ours, nothing missing, nothing from outside, and no sentence that becomes a script."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from small_report import HOSTILE, INPUTS, Made, make_report, make_row

from jobs.configs import ReportConfig
from jobs.report.write import gather, write
from jobs.storage.artifacts import Artifact
from transformer import paper_figures


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_report(tmp_path_factory.mktemp("one"), ["model"], None, title=f"Demo {HOSTILE}")


SEEDED = ["base@seed1", "base@seed2", "base@seed3", *list(paper_figures.TABLE_3)[1:]]


@pytest.fixture(scope="module")
def table3(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_report(tmp_path_factory.mktemp("table3"), SEEDED, 3)


# --- the page ----------------------------------------------------------------------------------------------------

VOID = {"meta", "wbr", "link", "br", "img", "hr", "input"}


class StrictParser(HTMLParser):
    """Refuses a page whose tags do not close in order, and remembers what it saw."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> at {self.getpos()} closes another element"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def parsed(html: str) -> StrictParser:
    parser = StrictParser()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    ids = [attributes["id"] for _, attributes in parser.seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    return parser


def words(html: str) -> str:
    return " ".join(" ".join(parsed(html).text).split())


@pytest.mark.parametrize("kind", ["one", "table3"])
def test_the_page_is_well_formed_and_asks_nothing_of_the_network(kind: str, request: pytest.FixtureRequest) -> None:
    made: Made = request.getfixturevalue(kind)
    page = parsed(made.html)
    assert made.html.startswith("<!DOCTYPE html>")
    for tag, attributes in page.seen:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base"), tag
        assert not {"src", "srcset", "action", "background"} & attributes.keys(), (tag, attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"@import|url\(", made.html)
    links = {str(attributes["href"])[1:] for _, attributes in page.seen if attributes.get("href")}
    assert links <= {attributes.get("id") for _, attributes in page.seen}


def test_only_our_script_runs_and_no_sentence_becomes_one(one: Made) -> None:
    page = parsed(one.html)
    scripts = [attributes for tag, attributes in page.seen if tag == "script"]
    assert [attributes.get("type") for attributes in scripts] == ["application/json", "application/json", None]
    assert not any(name.startswith("on") for _, attributes in page.seen for name in attributes)
    policy = next(str(a["content"]) for _, a in page.seen if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "script-src 'sha256-" in policy
    text = " ".join(page.text)
    assert "<script>alert('x')</script>" in text  # shown as it was written
    assert "<img src=http://evil.example/x onerror=alert(1)>" in " ".join(text.split())
    assert "<script>alert" not in one.html
    assert "<img" not in one.html


def test_a_single_row_shows_the_headline_with_its_protocol(one: Made) -> None:
    text = words(one.html)
    assert "BLEU, sacreBLEU 40.00 (39.0 to 41.0) new words part 35.00 nrefs:1| case:mixed| eff:no| tok:13a" in text
    assert "the paper's protocol 40.50" in text
    assert "2,000 updates of 0.15 s" in text
    assert "1.5·10¹⁴" in text
    assert "attn run demo --set training.steps=2000 # scores" in text  # the command that made the scores, as typed
    assert "<details><summary>All figures in one row</summary>" in one.html  # the cards above say them already
    assert "training.steps 2000" in text  # a setting that is not the paper's, as --set takes it
    assert "torch 2.13.0" in text
    assert "scores/scor0123456789" in text
    assert "too long" in text
    assert "BLEU − base" not in text  # no base to differ from


def test_the_paper_stands_beside_every_row_of_table_3(table3: Made) -> None:
    body = table3.html.split("<tbody>")[1].split("</tbody>")[0]
    rows = re.findall(r"<tr[^>]*><th[^>]*>([^<(]+?)(?: \(3 seeds\))?</th>(.*?)</tr>", body)
    cells = {name: re.findall(r"<td[^>]*>([^<]*)</td>", line) for name, line in rows}
    assert list(cells) == list(paper_figures.TABLE_3)
    for name, theirs in paper_figures.TABLE_3.items():
        assert cells[name][1] == f"{theirs.perplexity:.2f}"
        assert f"{theirs.bleu:.1f}" in cells[name]
    assert "✗" not in body  # the rows were made to agree
    assert "in 18 of the 18 rows" in words(table3.html)
    assert "A sign is given where a row differs from base by more than the spread of base" in words(table3.html)
    rows = len(paper_figures.TABLE_3)
    assert table3.html.count("<circle") == 2 * rows + 2 * (rows - 1)  # two charts by size, two of differences to base


def test_a_small_model_has_no_figure_of_the_papers_beside_it(tmp_path: Path) -> None:
    small, same = (
        re.findall(r'<div class="beside">(.*?)</div>', make_report(tmp_path / name, ["base"], 3, size=size).html)
        for name, size in (("small", 0.1), ("same", 1.0))
    )
    assert not [text for text in small if "paper" in text]
    assert [text for text in same if "paper" in text] == ["paper 25.8", "paper 65.0M"]


def test_the_title_says_how_many_rows_of_the_table_there_are(table3: Made, tmp_path: Path) -> None:
    assert "<h1>Table 3</h1>" in make_report(tmp_path / "all", list(paper_figures.TABLE_3), 3, "Table 3").html
    some = make_report(tmp_path / "some", ["base", "big", "F/wide"], 3, "Table 3: all variations")
    assert f"<h1>Table 3: 2 of its {len(paper_figures.TABLE_3)} rows and 1 more</h1>" in some.html
    assert some.markdown.startswith(f"# Table 3: 2 of its {len(paper_figures.TABLE_3)} rows and 1 more")


def test_a_model_that_learned_nothing_comes_with_advice(one: Made, tmp_path: Path) -> None:
    nothing = make_report(tmp_path, ["demo"], None, bleu=0.4)
    assert "this model has learned next to nothing in 2,000 updates" in words(nothing.html)
    assert "learned next to nothing" in nothing.markdown
    assert "learned next to nothing" not in one.html


def test_no_sign_is_given_where_base_has_one_seed(tmp_path: Path) -> None:
    made = make_report(tmp_path, ["base", "A/h=1", "big"], 3)
    body = made.html.split("<tbody>")[1].split("</tbody>")[0]
    assert "✓" not in body
    assert "✗" not in body
    assert "one (--seeds 3)" in words(made.html)
    assert "moves in the paper's direction" not in words(made.html)


def test_table_2_is_shown_whole_with_ours_below(tmp_path: Path) -> None:
    made = make_report(tmp_path, ["base-en-de", "big-en-fr"], 2, size=1.0)
    text = words(made.html)
    for system in paper_figures.TABLE_2:
        assert system.name in text
    assert "ours: big-en-fr – " in text
    assert "paper 27.3" in text
    assert [line["paper_bleu"] for line in made.table] == ["27.3", "41.8"]


def test_table_4_is_shown_whole_with_our_f1(tmp_path: Path) -> None:
    inputs = make_row(tmp_path, "row", bleu=1, perplexity=2, parameters=3)
    parsed_well = {**inputs["scores"].read_json("record.json"), "facts": {"f1": 90.25}}
    inputs["scores"].write_json("record.json", parsed_well)
    out = Artifact(str(tmp_path / "out"))
    write(gather(ReportConfig(title="Parsing", recipe="parse", rows=("wsj-only",), table=4), {"wsj-only": inputs}), out)
    text = words(out.read_text("report.html"))
    assert "Petrov et al. (2006) WSJ only, discriminative 90.4" in text
    assert "ours: wsj-only – 90.2" in text


def test_every_embedded_value_is_strict_json(table3: Made) -> None:
    data = re.findall(r'<script type="application/json" id="([\w-]+)">(.*?)</script>', table3.html, re.S)
    found = {name: json.loads(text, parse_constant=pytest.fail) for name, text in data}
    assert [row["name"] for row in found["curves-data"]["rows"]] == SEEDED
    assert len(found["curves-data"]["rows"][0]["updates"]) == 40
    assert found["attention-data"]["sentences"][0]["text"].startswith("The old <i>dog sleeps.")


def test_csv_and_markdown_say_the_same(table3: Made) -> None:
    assert [line["row"] for line in table3.table] == list(paper_figures.TABLE_3)
    one_head = table3.table[1]
    assert float(one_head["bleu_paper"]) - 40.5 == pytest.approx(float(one_head["bleu_minus_base"]))
    assert float(one_head["paper_bleu_minus_base"]) == pytest.approx(-0.9)
    assert f"| A/h=1 | 4.76 | {float(one_head['bleu']):.2f} |" in table3.markdown
    assert "![learning](figures/learning.svg)" in table3.markdown


def test_markdown_takes_no_sentence_for_markup(one: Made) -> None:
    assert "<script" not in one.markdown
    assert "<img" not in one.markdown
    assert "\\| \\`saw\\` \\*it\\*." in one.markdown


def test_every_figure_is_a_drawing_of_its_own(table3: Made) -> None:
    for name in table3.out.names("figures"):
        svg = table3.out.read_text(f"figures/{name}")
        assert "var(--" not in svg
        assert "<title>" in svg
        parsed(svg.partition("?>")[2])
    assert len(table3.out.names("figures")) == 9


def test_results_with_nothing_optional_still_make_a_report(tmp_path: Path) -> None:
    found = {step: Artifact(str(tmp_path / step)) for step in INPUTS}
    for step, artifact in found.items():
        artifact.write_json("record.json", {"stage": step, "fingerprint": "0", "facts": {}, "made": {}})
    out = Artifact(str(tmp_path / "out"))
    write(gather(ReportConfig(title="Bare", recipe="demo"), {"model": found}), out)
    text = words(out.read_text("report.html"))
    assert "no counts recorded" in text
    assert "nan" not in text.lower()
    assert "None" not in text


def test_several_seeds_are_one_row_with_a_spread(tmp_path: Path) -> None:
    runs = {
        f"base@seed{seed}": make_row(tmp_path, str(seed), bleu=30 + seed, perplexity=5, parameters=9)
        for seed in (1, 2, 3)
    }
    report = gather(ReportConfig(title="Seeds", recipe="demo", rows=tuple(runs), table=3), runs)
    (base,) = report.results
    assert base.seeds == 3
    assert base.bleu is not None
    assert base.bleu.value == pytest.approx(32)
    assert base.bleu.spread == pytest.approx(1)  # the standard deviation of 31, 32, 33
    assert base.bleu.low is None  # an interval of one run is none of the mean
    assert base.paper is not None
    out = Artifact(str(tmp_path / "out"))
    write(report, out)
    text = words(out.read_text("report.html"))
    assert "base (3 seeds)" in text
    assert "32.00 ± 1.00" in text
    assert "base@seed2" in out.read_text("report.html")  # each run has its own curve
