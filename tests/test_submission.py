"""What is sent to a cluster and what is asked of it first: the part that talks to nobody."""

from __future__ import annotations

import itertools
import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.cluster.submit import code_bundle
from jobs.cluster.submit.submission import (
    ClusterFacts,
    Node,
    Submission,
    SubmittedJob,
    check_cluster,
    entrypoint,
    find_running,
    interpreter_of,
    job_from,
    newest_of,
    next_id,
    refuse_secrets,
    submission_id,
    whole_lines,
    without_ray_lines,
)
from jobs.configs import Resources, TrainResources
from jobs.errors import UserError

JSON = ["--events", "json"]
ASKED = Submission(
    recipe="base-en-de",
    fingerprint="0123456789abcdef0123",
    arguments=("base-en-de", "--set", "training.steps=2000"),
    profile=Resources(
        name="pair", cpus=4, gpus=2, train=TrainResources(workers=2, cpus_per_worker=1, gpus_per_worker=1)
    ),
    workspace="s3://bucket/attn",
    user="me",
)
MINE = SubmittedJob(id="x", status="running", recipe="base-en-de", user="me", workspace="s3://bucket/attn", started=1.0)
NODE = Node(id="a", ip="10.0.0.1", is_head=True, resources={"CPU": 4, "GPU": 2, "object_store_memory": 8 * 2**30})
CLUSTER = ClusterFacts(
    address="http://cluster:8265", ray="2.60.0", python="3.11.14", nodes=(NODE,), autoscales=False, interpreter="python"
)


def found(asked: Submission, cluster: ClusterFacts) -> dict[str, tuple[str, str]]:
    """The worst that was said of each thing."""
    worst: dict[str, tuple[str, str]] = {}
    for finding in check_cluster(asked, cluster, ray="2.60.0", python="3.11.7"):
        if finding.what not in worst or finding.level != "ok":
            worst[finding.what] = (finding.level, finding.sentence)
    return worst


# --- ids ---------------------------------------------------------------------------------------------------------


def test_the_same_question_has_the_same_id_and_another_has_another() -> None:
    assert submission_id(ASKED) == submission_id(replace(ASKED))
    others = (
        replace(ASKED, fingerprint="f" * 20), replace(ASKED, user="other"), replace(ASKED, workspace="s3://bucket/b"),
    )  # fmt: skip
    assert len({submission_id(each) for each in (ASKED, *others)}) == 4
    assert re.fullmatch(r"attn-table-3-a-mary-s-[0-9a-f]{12}-2", submission_id(
        replace(ASKED, recipe="Table 3/A", user="Mary S."), 2
    ))  # fmt: skip


def test_an_id_is_never_used_twice() -> None:
    known: list[SubmittedJob] = []
    for _ in range(4):
        known.append(SubmittedJob(id=next_id(ASKED, known), status="failed"))
    assert len({job.id for job in known}) == 4
    assert known[3].id.endswith("-4")


def test_a_recipe_under_way_is_met_and_one_that_is_over_is_not() -> None:
    running = replace(MINE, fingerprint=ASKED.fingerprint)
    assert find_running(ASKED, [running]) == running
    assert find_running(ASKED, [replace(running, user="other"), replace(running, workspace="s3://b/c")]) is None
    assert find_running(ASKED, [replace(running, status="waiting")]) is not None
    assert find_running(ASKED, [replace(running, status="failed"), replace(running, fingerprint="other")]) is None


def test_a_recipe_means_the_users_own_newest_job() -> None:
    over, other = replace(MINE, id="over", status="done", started=9.0), replace(MINE, id="o", user="other", started=8.0)
    elsewhere = replace(MINE, id="elsewhere", workspace="s3://bucket/b")
    assert newest_of("base-en-de", [other, over, MINE], "me", None) == MINE, "under way before over"
    assert newest_of("base-en-de", [other, over], "me", None) == over
    assert newest_of("base-en-de", [MINE, elsewhere], "me", "s3://bucket/b") == elsewhere
    assert newest_of("attn-an-id", [MINE], "me", None) is None
    with pytest.raises(UserError, match=r"No job of base-en-de is me's\. Others' are o \(other\)"):
        newest_of("base-en-de", [other], "me", None)
    with pytest.raises(UserError, match="several workspaces"):
        newest_of("base-en-de", [MINE, elsewhere], "me", None)


def test_rays_words_become_ours() -> None:
    details = SimpleNamespace(
        submission_id="attn-x", job_id=None, status=SimpleNamespace(value="SUCCEEDED"), start_time=2000, end_time=None,
        message=None, metadata=ASKED.metadata,
    )  # fmt: skip
    job = job_from(details)
    assert (job.id, job.status, job.recipe, job.started, job.ended) == ("attn-x", "done", "base-en-de", 2.0, None)
    assert (job.user, job.workspace) == (ASKED.user, ASKED.workspace)
    assert job.is_over


# --- what is sent ------------------------------------------------------------------------------------------------


def test_the_command_survives_the_shell_and_names_carried_files_where_they_will_be() -> None:
    odd = replace(ASKED, arguments=("base-en-de", "--rows-from", "/home/me/my rows.toml", "--set", "x='a b'; rm -rf /"))
    odd = replace(odd, carried=("/home/me/my rows.toml",))
    words = shlex.split(entrypoint(odd, "/usr/bin/python3"))
    assert words[:4] == ["/usr/bin/python3", "-m", "pipelines.cli", "run"]
    assert words[4:] == ["base-en-de", "--rows-from", "carried/my rows.toml", "--set", "x='a b'; rm -rf /", *JSON]


def test_the_bundle_holds_the_code_and_what_was_named_and_nothing_else(tmp_path: Path) -> None:
    mine = tmp_path / "rows.toml"
    mine.write_text("[rows]", encoding="utf-8")
    box = tmp_path / "bundle"
    box.mkdir()
    size = code_bundle.fill_bundle(box, [str(mine)])
    names = {str(file.relative_to(box)) for file in box.rglob("*") if file.is_file()}
    for needed in (
        "pipelines/cli.py",
        "jobs/cluster/submit/client.py",
        "transformer/model.py",
        "infra/profiles/gpu8.toml",
    ):
        assert needed in names
    assert (box / "carried/rows.toml").read_text(encoding="utf-8") == "[rows]"
    assert {name.split("/")[0] for name in names} == {"pipelines", "jobs", "transformer", "infra", "carried"}
    assert not any(part in name for name in names for part in ("__pycache__", ".pyc", ".git", "secrets", "kuberay"))
    assert size < 4 * 2**20


def test_a_bundle_that_is_too_large_is_refused_and_the_culprit_named(tmp_path: Path) -> None:
    big = tmp_path / "corpus.txt"
    big.write_bytes(b"x" * (code_bundle.LARGEST_BUNDLE + 1))
    (tmp_path / "bundle").mkdir()
    with pytest.raises(UserError, match=r"21 MB|20 MB.*carried/corpus.txt"):
        code_bundle.fill_bundle(tmp_path / "bundle", [str(big)])


def test_two_carried_files_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="same name"):
        code_bundle.fill_bundle(tmp_path, ["/a/rows.toml", "/b/rows.toml"])


@pytest.mark.parametrize(
    "change",
    [
        {"workspace": "s3://bucket/attn?access_key=A&secret_key=B"},
        {"workspace": "s3://key:word@bucket/attn"},
        {"tracking": "https://me:word@mlflow.example.com"},
    ],
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(change: dict[str, str]) -> None:
    with pytest.raises(UserError, match="secret") as caught:
        refuse_secrets(replace(ASKED, **change))  # type: ignore[arg-type]
    assert "word" not in str(caught.value).replace("password", "")
    refuse_secrets(replace(ASKED, workspace="s3://bucket/attn?region=eu-west-1&endpoint_override=store:9000"))


# --- what must be true -------------------------------------------------------------------------------------------


def test_a_fitting_cluster_is_found_fitting() -> None:
    assert {level for level, _ in found(ASKED, CLUSTER).values()} == {"ok"}


@pytest.mark.parametrize(
    ("what", "level", "cluster"),
    [
        ("Ray", "error", replace(CLUSTER, ray="2.59.0")),
        ("Python", "error", replace(CLUSTER, python="3.12.1")),
        ("GPUs", "error", replace(CLUSTER, nodes=(replace(NODE, resources={"CPU": 4}),))),
        ("GPUs", "warning", replace(CLUSTER, nodes=(replace(NODE, resources={"CPU": 4}),), autoscales=True)),
        ("CPUs", "warning", replace(CLUSTER, nodes=(replace(NODE, resources={"CPU": 3, "GPU": 2}),))),
        ("CPUs", "error", replace(CLUSTER, nodes=(replace(NODE, resources={"CPU": 1, "GPU": 2}),))),
        ("memory", "warning", replace(CLUSTER, nodes=(replace(NODE, resources={"CPU": 4, "GPU": 2}),))),
    ],
)
def test_what_does_not_fit_is_said(what: str, level: str, cluster: ClusterFacts) -> None:
    assert found(ASKED, cluster)[what][0] == level


@pytest.mark.parametrize("cluster", [replace(CLUSTER, ray="2.60.1"), replace(CLUSTER, python="3.11.0")])
def test_a_cluster_whose_last_number_differs_is_not_refused(cluster: ClusterFacts) -> None:
    assert {level for level, _ in found(ASKED, cluster).values()} == {"ok"}


def test_an_elastic_profile_needs_only_its_least() -> None:
    elastic = replace(ASKED, profile=replace(ASKED.profile, train=replace(ASKED.profile.train, min_workers=1)))
    one_gpu = replace(CLUSTER, nodes=(replace(NODE, resources={"CPU": 4, "GPU": 1}),))
    assert found(elastic, one_gpu)["GPUs"][0] == "warning"
    assert found(ASKED, one_gpu)["GPUs"][0] == "error"


def test_a_local_workspace_is_refused_where_nodes_are_still_to_come() -> None:
    local = replace(ASKED, workspace="/data/attn")
    assert "not on this machine" in found(local, CLUSTER)["workspace"][1]
    assert "workspace" not in found(local, replace(CLUSTER, address="http://localhost:8265"))
    assert found(local, replace(CLUSTER, autoscales=True))["workspace"][0] == "error"
    assert found(local, replace(CLUSTER, nodes=(NODE, replace(NODE, id="b"))))["workspace"][0] == "warning"
    assert found(replace(ASKED, workspace="workspace"), CLUSTER)["workspace"][0] == "error"


def test_this_machines_mlflow_is_no_use_to_a_cluster_elsewhere() -> None:
    mine = replace(ASKED, tracking="http://localhost:5000")
    assert found(mine, CLUSTER)["MLflow"][0] == "error"
    assert "MLflow" not in found(mine, replace(CLUSTER, address="http://127.0.0.1:8265"))


def test_text_of_this_machine_is_no_use_to_a_cluster_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("Hello.", encoding="utf-8")
    mine = replace(ASKED, arguments=("files", "--set", f"corpus.train_source={tmp_path / 'a.en'}"))
    assert found(mine, CLUSTER)["corpus.train_source"][0] == "error"
    assert "corpus.train_source" not in found(mine, replace(CLUSTER, address="http://localhost:8265"))


# --- what comes back ---------------------------------------------------------------------------------------------


@given(st.text(alphabet="ab\n", max_size=40), st.lists(st.integers(0, 40), max_size=6))
def test_lines_do_not_depend_on_how_the_text_was_cut(text: str, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in itertools.pairwise(places)]
    assert list(whole_lines(pieces)) == list(whole_lines([text]))
    assert "\n".join(whole_lines([text])) == text.removesuffix("\n")


def test_rays_own_lines_are_left_out_wherever_they_stand() -> None:
    ray = "2026-11-16 06:59:00,791\tINFO job_manager.py:581 -- Runtime env is setting up."
    workers = [
        "(TrainWorker pid=12, ip=10.0.0.1) a",
        "\x1b[36m(run(x) pid=1)\x1b[0m b",
        "(raylet) c",
        "(raylet, pid=7) d",
    ]
    lines = [ray, "hello", "Running entrypoint for job x: python", "", *workers, "2026-11-16 bye"]
    assert list(without_ray_lines(lines)) == ["hello", "", "(raylet) c", "2026-11-16 bye"]


def test_the_heads_python_is_read_from_its_raylet() -> None:
    command = ["/x/raylet", "--head", "--python_worker_command=/y/venv/bin/python /x/setup_worker.py --a=b"]
    assert interpreter_of(command) == "/y/venv/bin/python"
    assert interpreter_of([]) == "python"
