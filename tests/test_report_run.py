"""The report as a step runs it: on a real Ray with a real model, and its page in a real browser."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_report import make_report, make_row

from jobs.configs import ReportConfig, Resources
from jobs.errors import UserError
from jobs.events import Event, Note
from jobs.storage.artifacts import Artifact
from transformer import paper_figures

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")


@pytest.mark.ray
def test_a_report_is_made_from_a_real_model(tmp_path: Path, ray_session: None) -> None:
    from small_model import random_directory  # noqa: PLC0415

    from jobs.report import job as report  # noqa: PLC0415  brings Ray and torch, which the browser's test does without

    rows = [make_row(tmp_path, name, bleu=40, perplexity=5, parameters=10) for name in ("first", "second")]
    random_directory(Path(rows[0]["models"].uri))
    out, said = Artifact(str(tmp_path / "out")), list[Event]()
    config = ReportConfig(title="Two rows", recipe="demo", rows=("one", "two"))
    facts = report.run(config, rows=rows, out=out, on=Resources(), log=said.append)
    assert facts["rows"] == 2
    assert facts["bleu"] == 40
    entropies = [name for name in facts if name.startswith("attention_entropy_")]
    assert len(entropies) == 3 * 2 * 4  # kinds, layers, heads
    page = out.read_text("report.html")
    data = json.loads(re.findall(r'id="attention-data">(.*?)</script>', page, re.S)[0])
    weights = base64.b64decode(data["sentences"][0]["kinds"]["encoder"]["layers"][1][3])
    length = len(data["sentences"][0]["source"])
    assert len(weights) == length**2
    assert all(abs(sum(weights[row * length : (row + 1) * length]) - 255) <= length / 2 for row in range(length))
    assert "The other rows" in page
    assert any(isinstance(event, Note) and "report.html" in event.text for event in said)
    with pytest.raises(UserError, match="1 names of rows for 2 rows"):
        report.run(ReportConfig(title="", recipe=""), rows=rows, out=out, on=Resources(), log=said.append)


# --- in a browser ------------------------------------------------------------------------------------------------

# What a visitor does, and what must be there afterwards; an error anywhere is the result instead.
VISIT = """
{
const done = {};
addEventListener("error", (event) => { done.error = event.message; });
addEventListener("securitypolicyviolation", (event) => { done.violation = event.violatedDirective; });
const drawn = () => document.querySelector("#curves svg.chart path[stroke-linejoin]");
const begin = () => drawn() ? visit() : setTimeout(begin, 100);
setTimeout(begin, 100);
const visit = async () => {
  const wait = () => new Promise((resolve) => setTimeout(resolve, 60));
  const one = (query) => document.querySelector(query);
  const all = (query) => [...document.querySelectorAll(query)];
  const lines = () => all("#curves svg.chart path[stroke-linejoin]").length;
  done.rows = lines();
  all("#curves .legend button")[1].click();
  done.rowsAfterToggle = lines();
  const ticks = () => all("#curves svg.chart text").map((text) => text.textContent).join(" ");
  done.linear = ticks();
  all("#curves .controls button").find((button) => button.textContent === "log x").click();
  done.logarithmic = ticks();
  const plot = one("#curves .plot"), box = plot.getBoundingClientRect();
  const at = { clientX: box.left + box.width / 2, clientY: box.top + 90, bubbles: true };
  plot.dispatchEvent(new PointerEvent("pointermove", at));
  done.tip = one(".tip").innerText;
  done.cells = all("#attention .heads button").length;
  const said = () => one("#attention .said").textContent;
  all("#attention .heads button")[0].click();
  done.head = said();
  done.squares = all("#attention .view rect").length;
  all("#attention .controls button").find((button) => button.textContent === "Lines").click();
  done.strokes = all("#attention .view path").length;
  done.shownTabs = all(".tabbed").filter((tab) => !tab.hidden).map((tab) => tab.dataset.name);
  all("[data-tabs] button")[1].click();
  done.shownThen = all(".tabbed").filter((tab) => !tab.hidden).map((tab) => tab.dataset.name);
  const dark = () => getComputedStyle(document.body).backgroundColor;
  done.light = dark();
  one(".theme").click();
  done.dark = dark();
  await wait();
  done.overflow = document.documentElement.scrollWidth - innerWidth;
  document.body.style.width = "360px";
  await wait();
  const scrolls = ".scroll, nav, .view, .tip";
  const wide = (element) => element.getBoundingClientRect().right > 361 && !element.closest(scrolls);
  const sentences = one("#attention .controls select");
  sentences.selectedIndex = 1;
  sentences.dispatchEvent(new Event("change", { bubbles: true }));
  all("#attention .controls button").find((button) => button.textContent === "Matrix").click();
  await wait();
  const labels = all("#attention [data-label]").map((label) => label.getBoundingClientRect());
  done.labels = labels.length;
  done.collisions = labels.slice(1).filter((box, at) => box.left < labels[at].right - 3).length;
  const left = (element) => element.getBoundingClientRect().left;
  done.cut = all("#attention .view text").filter((text) => left(text) < left(text.ownerSVGElement) - 0.5).length;
  done.tooWide = all("body *").filter(wide).map((element) => element.outerHTML.slice(0, 80));
  document.body.dataset.done = JSON.stringify(done);
};
}
"""


@pytest.fixture
def browse(tmp_path: Path) -> Callable[[str, int], str]:
    """Open a page and return what became of it."""
    if not shutil.which(CHROMIUM):
        pytest.skip(f"no browser at {CHROMIUM}: install chromium, or name one in CHROMIUM")

    def opened(page: str, width: int) -> str:
        file = tmp_path / "page.html"
        file.write_text(page, encoding="utf-8")
        quiet = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
        quiet += " --disable-component-update --disable-sync --hide-scrollbars"
        command = [CHROMIUM, *quiet.split(), f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900"]
        command += ["--virtual-time-budget=20000", "--dump-dom", file.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    return opened


def visited(page: str, width: int, browse: Callable[[str, int], str]) -> dict[str, Any]:
    """Visit with a script of the test's own, which the copy's policy is made to allow beside the page's."""
    digest = base64.b64encode(hashlib.sha256(VISIT.encode()).digest()).decode()
    allowed = page.replace("script-src &#39;", f"script-src &#39;sha256-{digest}&#39; &#39;", 1)
    assert allowed != page
    for _ in range(3):  # the browser's clock is a virtual one, and may run out on a busy machine
        dom = browse(allowed.replace("</head>", f"<script>{VISIT}</script></head>"), width)
        found = re.search(r'data-done="([^"]*)"', dom)
        if found is not None:
            break
    assert found is not None, "the visit did not end: a script of the page failed"
    return dict(json.loads(html.unescape(found[1])))


@pytest.mark.slow
@pytest.mark.parametrize("width", [1200, 500])
def test_the_page_works_in_a_browser(tmp_path: Path, browse: Callable[[str, int], str], width: int) -> None:
    page = make_report(tmp_path / "results", list(paper_figures.TABLE_3), 3).html
    done = visited(page, width, browse)
    assert "error" not in done
    assert "violation" not in done  # nothing was asked of the network, no foreign script was met
    assert done["rows"] == len(paper_figures.TABLE_3)
    assert done["rowsAfterToggle"] == len(paper_figures.TABLE_3) - 1
    assert done["linear"] != done["logarithmic"]
    assert "update 750" in done["tip"]  # the middle of a logarithmic axis from 250 to 2,000
    assert "C/N=2" in done["tip"]
    assert "A/h=1\t" not in done["tip"]  # switched off above
    assert done["cells"] == 2 * (3 + 1)  # heads and their mean, by layer
    assert done["head"].startswith("Decoder to encoder, layer 1, head 1: entropy")
    assert done["squares"] == 5 * 7
    assert 0 < done["strokes"] <= 5 * 7
    assert done["shownTabs"] == ["Worst"]
    assert done["shownThen"] == ["Best"]
    assert done["light"] != done["dark"]
    assert done["labels"] > 20  # of a long sentence, at the width of a phone
    assert done["collisions"] == 0
    assert done["cut"] == 0  # at the left edge
    assert done["overflow"] <= 0  # no sideways scrolling of the page
    if width == 500:  # as narrow as the browser's window goes; the page itself goes narrower
        assert done["tooWide"] == []


@pytest.mark.slow
def test_a_foreign_script_does_not_run(tmp_path: Path, browse: Callable[[str, int], str]) -> None:
    """The second line of defence: were a sentence to get through unescaped, the policy would still stop it."""
    page = make_report(tmp_path / "results", ["model"], None).html
    bad = "<script>document.documentElement.dataset.owned = 1</script>"
    dom = browse(page.replace("</main>", f"{bad}</main>"), 800)
    assert "data-owned" not in dom
    assert 'class="legend"' in dom  # while our own ran
