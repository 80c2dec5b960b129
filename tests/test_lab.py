"""`attn lab` as a user meets it: the list, refusals in words, every experiment through the real command line."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import ROOT
from small_demo import attn
from small_lab import CHANGES

from jobs.errors import UserError
from jobs.lab.configs import QUICK, LabPageConfig
from jobs.lab.questions import QUESTIONS
from jobs.lab_page.job import mean_rows, page, read
from jobs.storage.artifacts import Artifact
from pipelines.recipes import lab
from pipelines.steps.plan import in_order

HEAVY = {"ray", "torch", "mlflow", "pyarrow", "pandas", "numpy", "sentencepiece", "sacrebleu"}


# --- planning ----------------------------------------------------------------------------------------------------


def test_the_list_says_question_paper_and_minutes_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from pipelines.cli import main; main(['lab', '--json']); "
        f"print(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = json.loads(done.stdout)
    assert [one["name"] for one in listed] == list(QUESTIONS)
    assert all(one["question"].endswith("?") and one["paper"] and 0 < one["minutes"] <= 8 for one in listed)
    assert done.stderr.strip() == "[]"


def test_planning_an_experiment_loads_nothing_heavy() -> None:
    code = (
        "import sys; from pipelines.recipes import lab; lab.page(['all'], quick=True, seeds=2); "
        f"print(sorted({HEAVY!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_page_stands_on_its_experiments_and_only_translating_ones_need_text() -> None:
    stages = [step.stage.name for step in in_order([lab.page(["scaling", "memory"])])]
    assert stages == ["lab", "lab", "lab_page"]
    every = in_order([lab.page(["all"], seeds=2)])
    assert sum(step.stage.name == "lab" for step in every) == 2 * len(QUESTIONS)
    assert sum(step.stage.name == "shards" for step in every) == 1, "made once, for all"


def test_the_first_of_several_seeds_is_the_very_step_made_alone() -> None:
    (alone,) = [step for step in in_order([lab.page(["warmup"])]) if step.tags.get("attn.lab")]
    seeds = [step for step in in_order([lab.page(["warmup"], seeds=3)]) if step.tags.get("attn.lab")]
    assert [step.config.seed for step in seeds] == [1, 2, 3]
    assert seeds[0].fingerprint == alone.fingerprint


def test_quick_is_smaller_and_another_result() -> None:
    quick, full = (lab.page(["scaling"], quick=quick) for quick in (True, False))
    assert quick.fingerprint != full.fingerprint
    assert QUICK.scaling.updates < lab.Lab().scaling.updates


def test_one_experiment_s_section_may_be_left_out() -> None:
    assert lab.page(["scaling"], ["d_k=4,64"]).fingerprint == lab.page(["scaling"], ["scaling.d_k=4,64"]).fingerprint


def test_own_text_takes_the_place_of_the_demo_language(tmp_path: Path) -> None:
    changes = []
    for split in ("train", "dev", "test"):
        for side in ("source", "target"):
            (tmp_path / f"{split}.{side}").write_text("a\n")
            changes.append(f"corpus.{split}_{side}={tmp_path / f'{split}.{side}'}")
    corpora = [step.config for step in in_order([lab.page(["recurrence"], changes)]) if step.stage.name == "corpora"]
    assert {type(config).__name__ for config in corpora} == {"FilesCorpus"}
    with pytest.raises(UserError, match=r"corpus\.test_target"):
        lab.page(["recurrence"], changes[:-1])


@pytest.mark.parametrize(
    ("names", "changes", "sentence"),
    [
        (["scalng"], [], "Did you mean scaling"),
        (["scaling"], ["scaling.dk=4,16"], "Did you mean scaling.d_k"),
        (["scaling"], ["scaling.d_k=64"], "at least 2 different values to compare, not 64"),
        (["scaling"], ["scaling.keys=1"], "a softmax over one key is 1"),
        (["heads"], ["heads.heads=8"], "at least 2 different values"),
        (["heads"], ["heads.heads=1,3"], "not a multiple of 3"),
        (["memory"], ["memory.lengths=64,128"], "at least 3 different values"),
        (["warmup"], ["warmup.warmups=100,300"], "must hold 0"),
        (["smoothing"], ["smoothing.smoothing=0.1,0.2"], "must hold 0"),
        (["smoothing"], ["smoothing.average=5,10"], "must hold 1"),
        (["positions"], ["positions.beyond=5"], "shortest < longest < beyond"),
        (["residual"], ["residual.model.layers=1"], "no depth"),
        (["residual"], ["residual.rates=0.001,0.01"], "at least 3 different values"),
        (["residual"], ["residual.draws=0"], "must be above 0"),
        (["recurrence"], ["recurrence.looks=1"], "a curve needs two points"),
    ],
)  # fmt: skip
def test_what_makes_an_experiment_meaningless_is_refused_in_words(
    names: list[str], changes: list[str], sentence: str
) -> None:
    with pytest.raises(UserError) as refused:
        lab.page(names, changes)
    assert sentence.lower() in str(refused.value).lower()


def test_json_is_refused_where_progress_is_printed() -> None:
    done = attn("lab", "scaling", "--json")
    assert done.returncode == 2
    assert "attn results --lab --json" in done.stderr


def test_seeds_below_one_are_refused() -> None:
    with pytest.raises(UserError, match="at least 1"):
        lab.page(["scaling"], seeds=0)


def test_means_over_seeds_leave_words_alone() -> None:
    seeds = [[{"model": "a", "x": 1.0, "failed": True}], [{"model": "a", "x": 3.0, "failed": False}]]
    assert mean_rows(seeds) == [{"model": "a", "x": 2.0, "failed": True}]


# --- through the command line ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_lab(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The workspace of all nine experiments at their smallest, and what was printed."""
    workspace = tmp_path_factory.mktemp("lab")
    done = attn("lab", "all", "--workspace", str(workspace), *CHANGES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "", "no library noise"
    return workspace, done.stdout


@pytest.mark.ray
@pytest.mark.slow
def test_all_experiments_end_in_one_page(small_lab: tuple[Path, str]) -> None:
    workspace, printed = small_lab
    (html,) = workspace.glob("lab_page/*/lab.html")
    text = html.read_text()
    assert str(html) in printed
    assert all(f'id="{name}"' in text for name in QUESTIONS)
    assert "nan" not in text.lower().replace("nanoseconds", "")
    assert text.count("<svg") >= 2 * len(QUESTIONS)
    references = Links()
    references.feed(text)
    assert not references.outside, "a page makes no request"
    assert {file.name.partition("-")[0] for file in html.parent.glob("data/*.csv")} == set(QUESTIONS)
    assert len(list(html.parent.glob("figures/*.svg"))) == text.count('<figure class="figure">')


class Links(HTMLParser):
    """Addresses that a page would load or lead to outside of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = [value for name, value in attrs if name in ("src", "href") and value and not value.startswith("#")]
        self.outside += found


@pytest.mark.ray
@pytest.mark.slow
def test_run_again_everything_is_found_done(small_lab: tuple[Path, str]) -> None:
    workspace, _ = small_lab
    again = attn("lab", "all", "--workspace", str(workspace), *CHANGES)
    assert again.returncode == 0
    assert "0 steps made" in again.stdout


@pytest.mark.ray
@pytest.mark.slow
def test_mlflow_has_claims_figures_and_verdicts(small_lab: tuple[Path, str]) -> None:
    workspace, _ = small_lab
    rows = json.loads(attn("results", "--lab", "--json", "--workspace", str(workspace)).stdout)
    assert list(dict.fromkeys(row["experiment"] for row in rows)) == list(QUESTIONS)
    assert {row["verdict"] for row in rows} <= {"holds", "does not hold", "not shown here"}
    (html,) = workspace.glob("lab_page/*/lab.html")
    lines = (html.parent / "verdicts.csv").read_text().splitlines()
    assert len(lines) - 1 == len(rows), "the page and MLflow say the same number of things"


@pytest.mark.ray
@pytest.mark.slow
def test_the_same_seed_gives_the_same_figures_to_the_digit(small_lab: tuple[Path, str], tmp_path: Path) -> None:
    workspace, _ = small_lab
    names = ["scaling", "mask", "heads", "smoothing"]  # no seconds and megabytes in these
    done = attn("lab", *names, "--workspace", str(tmp_path), *CHANGES)
    assert done.returncode == 0, done.stdout + done.stderr
    again = {
        json.loads(file.read_text())["experiment"]: file.read_bytes() for file in tmp_path.glob("lab/*/results.json")
    }
    before = {
        json.loads(file.read_text())["experiment"]: file.read_bytes() for file in workspace.glob("lab/*/results.json")
    }
    assert {name: before[name] for name in names} == again


@pytest.mark.ray
@pytest.mark.slow
def test_a_page_of_two_seeds_says_how_far_they_are_apart(small_lab: tuple[Path, str]) -> None:
    workspace, _ = small_lab
    found = {json.loads(file.read_text())["experiment"]: file.parent for file in workspace.glob("lab/*/results.json")}
    section = read([Artifact(str(found["mask"]))] * 2)
    html = page(LabPageConfig(experiments=("mask",), seeds=2), [section])
    assert "means of 2 seeds" in html
    assert "2 of 2" in html
