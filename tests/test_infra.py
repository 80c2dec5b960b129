"""Image, launcher files, compose files, scripts and dashboards: valid by their schemas, pinned, and in agreement."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import promql_parser
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from infra import pin
from jobs.cluster.profiles import load_profile, profile_names
from pipelines.cli import parser
from pipelines.recipes.recipes import RECIPES

ROOT = Path(__file__).resolve().parents[1]
INFRA = ROOT / "infra"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DOCKERFILE = (INFRA / "docker" / "Dockerfile").read_text(encoding="utf-8")
LAUNCHERS = ["aws", "gcp"]
COMPOSE = ["mlflow/compose.yaml", "monitoring/compose.yaml"]
SCRIPTS = ["mlflow/with-secrets.sh", "slurm/attn.sbatch", "setup.sh"]
OURS = {"ray_attn_update", "ray_attn_loss", "ray_attn_tokens_per_second", "ray_attn_learning_rate"}


def load(name: str) -> Any:
    return yaml.safe_load((INFRA / name).read_text(encoding="utf-8"))


def ray_file(name: str) -> str:
    """A file of the installed ray package, found without importing it."""
    found = find_spec("ray")
    assert found is not None
    assert found.origin is not None
    return (Path(found.origin).parent / name).read_text(encoding="utf-8")


def tool(name: str) -> str:
    path = Path(sys.executable).with_name(name)
    return str(path) if path.exists() else shutil.which(name) or pytest.fail(f"{name} comes with pip install .[dev]")


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return done.stdout + done.stderr


# --- image -------------------------------------------------------------------------------------------------------


def test_the_linter_has_nothing_to_say_of_the_dockerfile() -> None:
    assert run(tool("hadolint"), "--no-color", "infra/docker/Dockerfile") == ""


def test_the_linter_can_speak(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python:latest\nRUN cd / && sudo pip install torch\n", encoding="utf-8")
    assert "DL3007" in run(tool("hadolint"), "--no-color", str(tmp_path / "Dockerfile"))


def test_what_the_dockerfile_copies_is_there_and_reaches_the_builder() -> None:
    let_in = set(re.findall(r"^!(\S+)", (INFRA / "docker/Dockerfile.dockerignore").read_text(encoding="utf-8"), re.M))
    copied = [name for line in re.findall(r"^COPY (.+)", DOCKERFILE, re.M) for name in line.split()[:-1]]
    assert {"transformer", "jobs", "pipelines", "infra", "pyproject.toml"} <= set(copied)
    for name in copied:
        assert name.rstrip("*").split("/")[0] in let_in
        assert name.endswith("*") or (ROOT / name).exists()


def test_every_image_ends_as_an_ordinary_user() -> None:
    stages = re.split(r"^FROM ", DOCKERFILE, flags=re.M)[1:]
    for target in ("cpu", "cuda", "tracking"):
        (stage,) = [text for text in stages if re.match(rf"\S+ AS {target}\n", text)]
        assert re.findall(r"^USER (.+)", stage, re.M) == ["1000:1000"]


def test_what_is_installed_is_what_is_pinned() -> None:
    """Here and in the images: every distribution that attn needs, in the version of infra/constraints.txt."""
    pinned, installed = pin.read_constraints(), pin.pins("attn", frozenset({"dev"}))
    wrong = {name: version for name, version in installed.items() if pinned.get(name) != version}
    assert not wrong, f"run `make setup`, or `make pin` to raise versions: {wrong}"


def test_the_pinned_versions_are_ones_that_the_project_asks_for() -> None:
    pinned = pin.read_constraints()
    for text in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]:
        wanted = Requirement(text)
        version = pinned.get(canonicalize_name(wanted.name), "none")
        assert wanted.specifier.contains(version), f"{text}, but {version} is pinned: run `make pin`"
    for name, version in re.findall(r"([a-z0-9-]+)==([0-9.]+)", DOCKERFILE):
        assert pinned[name] == version


def images() -> Iterator[str]:
    yield re.search(r"PYTHON_IMAGE=(\S+)", DOCKERFILE)[1]  # type: ignore[index]
    for name in LAUNCHERS:
        yield load(f"cluster/{name}.yaml")["docker"]["image"]
    for name in COMPOSE:
        yield from (service["image"] for service in load(name)["services"].values())
    for name in ("kuberay/cluster.yaml", "kuberay/job.yaml", "mlflow/kubernetes.yaml"):
        yield from re.findall(r"image: (\S+)", (INFRA / name).read_text(encoding="utf-8"))


def test_every_image_is_of_one_exact_version() -> None:
    assert len(list(images())) > 12
    for image in images():
        name, _, tag = image.rpartition(":")
        assert re.search(r"\d+\.\d+|\d{4}-\d\d-\d\d", tag), image
        if name.endswith("attn"):
            assert re.fullmatch(re.escape(PROJECT["version"]) + r"-(cuda|cpu|tracking)", tag), image


# --- launcher ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_launcher_file_is_valid_for_the_installed_ray(name: str) -> None:
    schema = json.loads(ray_file("autoscaler/ray-schema.json"))
    jsonschema.validate(load(f"cluster/{name}.yaml"), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**load(f"cluster/{name}.yaml"), "max_worker": 1}, schema)


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_launcher_keeps_its_budget(name: str) -> None:
    cluster = load(f"cluster/{name}.yaml")
    plan, worker = cluster["metadata"], cluster["available_node_types"]["gpu8"]
    hourly = plan["head_usd_per_hour"] + cluster["max_workers"] * plan["worker_usd_per_hour"]
    assert plan["max_hours"] * hourly <= plan["budget_usd"]
    assert worker["min_workers"] == 0
    assert worker["max_workers"] == cluster["max_workers"]
    if name == "aws":
        market = worker["node_config"]["InstanceMarketOptions"]
        assert market["MarketType"] == "spot"
        assert float(market["SpotOptions"]["MaxPrice"]) == plan["worker_usd_per_hour"]
        assert f"sudo shutdown -h +{plan['max_hours'] * 60}" in cluster["initialization_commands"]
        nodes = [kind["node_config"] for kind in cluster["available_node_types"].values()]
        assert all(node["InstanceInitiatedShutdownBehavior"] == "terminate" for node in nodes)
    else:
        assert worker["node_config"]["scheduling"]["provisioningModel"] == "SPOT"
        for kind in cluster["available_node_types"].values():
            assert kind["node_config"]["scheduling"]["maxRunDuration"]["seconds"] == plan["max_hours"] * 3600
            assert kind["node_config"]["scheduling"]["instanceTerminationAction"] == "DELETE"


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_launcher_is_authenticated_private_and_fits_its_profile(name: str) -> None:
    cluster = load(f"cluster/{name}.yaml")
    assert "--env RAY_AUTH_MODE=token" in cluster["docker"]["run_options"]
    (where,) = cluster["file_mounts"]
    assert f"--env RAY_AUTH_TOKEN_PATH={where}" in cluster["docker"]["run_options"]
    assert "--dashboard-host=127.0.0.1" in cluster["head_start_ray_commands"][1]
    profile, node = load_profile(cluster["metadata"]["profile"]), cluster["available_node_types"]["gpu8"]["resources"]
    assert profile.gpus == node["GPU"]
    assert profile.cpus is not None
    assert profile.cpus <= node["CPU"]


# --- compose -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMPOSE)
def test_a_compose_file_is_valid(name: str) -> None:
    file = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    schema = json.loads(file.read_text(encoding="utf-8"))
    jsonschema.validate(load(name), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**load(name), "service": {}}, schema)


@pytest.mark.parametrize("name", COMPOSE)
def test_a_compose_file_is_private_and_names_files_that_are_there(name: str) -> None:
    compose, here = load(name), (INFRA / name).parent
    for service in compose["services"].values():
        assert not service.get("privileged", False)
        assert "no-new-privileges:true" in service["security_opt"]
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", []))
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or source.startswith("/") or (here / source).exists(), source
        assert set(service.get("secrets", [])) <= set(compose.get("secrets", {}))
        assert not any(
            "password" in str(value).lower()
            for key, value in service.get("environment", {}).items()
            if not key.endswith("_FILE")
        )
    for secret in compose.get("secrets", {}).values():
        assert "secrets/" in (here / ".gitignore").read_text(encoding="utf-8").split()
        assert secret["file"].startswith("./secrets/")


# --- scripts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_sound(name: str) -> None:
    assert run("bash", "-n", f"infra/{name}") == ""
    assert run(tool("shellcheck"), "--color=never", f"infra/{name}") == ""
    lines = (INFRA / name).read_text(encoding="utf-8").splitlines()
    assert ("set -euo pipefail" if "bash" in lines[0] else "set -eu") in lines


def test_no_script_is_left_out() -> None:
    shell = {path for path in INFRA.rglob("*") if path.is_file() and path.read_bytes()[:2] == b"#!"}
    assert {str(path.relative_to(INFRA)) for path in shell} == set(SCRIPTS)


def test_the_slurm_script_asks_for_what_is_missing() -> None:
    assert "Which recipe?" in run("bash", "infra/slurm/attn.sbatch")
    assert "ATTN_WORKSPACE" in run("env", "-u", "ATTN_WORKSPACE", "bash", "infra/slurm/attn.sbatch", "demo")


# --- monitoring --------------------------------------------------------------------------------------------------


def expressions() -> Iterator[tuple[str, str]]:
    for panel in load("monitoring/grafana/attn.json")["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    for group in load("monitoring/alerts.yml")["groups"]:
        yield from ((rule["alert"], rule["expr"]) for rule in group["rules"])


@pytest.mark.parametrize(("title", "expression"), expressions())
def test_an_expression_is_promql_over_figures_that_exist(title: str, expression: str) -> None:
    promql_parser.parse(expression)
    named = set(re.findall(r"\bray_\w+", expression))
    assert named
    reported = ray_file("dashboard/modules/reporter/reporter_agent.py")
    for figure in named - OURS:
        assert f'"{figure.removeprefix("ray_")}"' in reported, figure


def test_the_dashboard_shows_all_our_figures_and_nothing_overlaps() -> None:
    dashboard = load("monitoring/grafana/attn.json")
    shown = {figure for _, text in expressions() for figure in re.findall(r"\bray_attn_\w+", text)}
    assert shown == OURS
    cells = [
        (x, y)
        for panel in dashboard["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    source = load("monitoring/grafana/provisioning/datasources/prometheus.yaml")["datasources"][0]
    assert {panel["datasource"]["uid"] for panel in dashboard["panels"]} == {source["uid"]}


# --- README ------------------------------------------------------------------------------------------------------


def test_the_readme_names_files_and_profiles_that_are_there() -> None:
    text = (INFRA / "README.md").read_text(encoding="utf-8")
    for path in re.findall(r"\]\(([^)]+)\)", text):
        assert (INFRA / path).exists(), path
    for path in re.findall(r"infra/[\w./-]+\w", text):
        assert (ROOT / path).exists() or "secrets" in path, path
    assert set(profile_names()) == set(re.findall(r"^\| `([\w-]+)` \|", text, re.M))


def test_every_attn_command_here_is_one_that_attn_takes() -> None:
    text = (INFRA / "README.md").read_text(encoding="utf-8")
    typed = [words for words in re.findall(r"`attn ([^`]+)`", text) if words.split()[1:]]
    typed += [f"run {words}" for words in re.findall(r"attn\.sbatch (\S+ --on \S+?)`", text)]
    typed += re.findall(r"-m pipelines\.cli ([^\n`]+)", text + (INFRA / "kuberay/job.yaml").read_text(encoding="utf-8"))
    assert len(typed) > 6
    for words in typed:
        if "RECIPE" not in words:
            asked = parser().parse_args(words.split())
            assert getattr(asked, "recipe", "demo") in RECIPES
            assert getattr(asked, "on", "laptop") in profile_names()


@pytest.mark.slow
def test_every_option_of_ray_and_mlflow_exists_in_the_installed_ones() -> None:
    ray_help = run(tool("ray"), "start", "--help")
    mlflow_help = run(tool("mlflow"), "server", "--help")
    texts = "\n".join(
        file.read_text(encoding="utf-8") for file in INFRA.rglob("*") if file.suffix in {".yaml", ".sbatch", ".sh"}
    )
    starts = [
        line
        for command in re.findall(r"ray start((?:[^\n]|\\\n)*)", texts)
        for line in re.findall(r"--[a-z-]+", command)
    ]
    assert len(starts) > 10
    assert [option for option in starts if option not in ray_help] == []
    serves = re.findall(
        r"--[a-z-]+", " ".join(re.findall(r"mlflow server(.*)|serve, (.*)|\"serve\", (.*)", texts).__str__().split())
    )
    assert "--allowed-hosts" in serves
    assert [option for option in serves if option not in mlflow_help] == []
    parameters = [
        *load("kuberay/cluster.yaml")["spec"]["workerGroupSpecs"],
        load("kuberay/cluster.yaml")["spec"]["headGroupSpec"],
    ]
    assert [name for group in parameters for name in group["rayStartParams"] if f"--{name}" not in ray_help] == []
