"""A trained model in MLflow: loadable with one line anywhere, and registered under its recipe's name with its scores.

    mlflow.pyfunc.load_model("models:/base-en-de@champion").predict(["A sentence."])

The champion is the version with the best BLEU. Others are found by a query: `client.search_model_versions("name =
'base-en-de'")`, each version tagged with its scores; or, over all recipes, by
`mlflow.search_logged_models(filter_string="metrics.bleu > 20")`.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlflow
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from pipelines.steps.step import Step
from transformer.config import CONFIG, SUBWORDS, WEIGHTS

ARTIFACTS = {"config": CONFIG, "weights": WEIGHTS, "subwords": SUBWORDS}  # by the names that pyfunc.py asks for
NEEDED = ("torch", "numpy", "sentencepiece", "safetensors")
CHAMPION = "champion"
ROOT = Path(__file__).resolve().parents[2]
ADDRESS = threading.Lock()  # of MLflow, in this process

os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What is known of a model when it is registered: the score that judged it, and what led to that."""

    recipe: str
    fingerprint: str  # of the score
    scores: Mapping[str, float]
    params: Mapping[str, str]
    test_set: Step | None = None


@contextlib.contextmanager
def tracked_at(uri: str) -> Iterator[None]:
    """Let MLflow's functions that take no address write to `uri`, and give the process its own address back.

    MLflow keeps the address in the environment, where the next run of a notebook would find another workspace's. There
    is one for the whole process, so one thread at a time.
    """
    with ADDRESS:
        before = os.environ.get("MLFLOW_TRACKING_URI")
        mlflow.set_tracking_uri(uri)
        try:
            yield
        finally:
            mlflow.set_tracking_uri(before)  # type: ignore[arg-type]  # None for none, as MLflow itself does


def log_model(tracking_uri: str, run_id: str, model_directory: Path, judged: Judged) -> str:
    """Keep a model directory in MLflow under a run, register it under its recipe's name; its models:/name/version."""
    with tracked_at(tracking_uri):
        return keep_and_register(MlflowClient(tracking_uri), run_id, model_directory, judged)


def keep_and_register(client: MlflowClient, run_id: str, model_directory: Path, judged: Judged) -> str:
    experiment = client.get_run(run_id).info.experiment_id
    logged = client.create_logged_model(experiment, name="model", source_run_id=run_id, params=dict(judged.params))
    kept = mlflow.models.Model.log(
        artifact_path=None,
        name="model",
        flavor=mlflow.pyfunc,
        run_id=run_id,
        python_model=str(ROOT / "pipelines" / "tracking" / "pyfunc.py"),
        artifacts={key: str(model_directory / name) for key, name in ARTIFACTS.items()},
        code_paths=[str(ROOT / "transformer")],
        pip_requirements=[f"{name}=={version(name)}" for name in ("mlflow", *NEEDED)],
        model_id=logged.model_id,
    )
    text = judged.test_set
    data, digest = (text.name, text.fingerprint) if text else (None, None)
    for name, value in judged.scores.items():
        client.log_metric(run_id, name, float(value), model_id=kept.model_id, dataset_name=data, dataset_digest=digest)
    registered = register(client, kept, run_id, judged)
    return f"models:/{registered.name}/{registered.version}"


def register(client: MlflowClient, kept: Any, run_id: str, judged: Judged) -> Any:
    """The version of this model: a new one, or that of another run which registered the same at the same time."""
    name = registered_name(judged.recipe)
    with contextlib.suppress(MlflowException):  # somebody else has made it
        client.create_registered_model(name, description=f"Models of the recipe {judged.recipe}.")
    tags = {"attn.recipe": judged.recipe, "attn.fingerprint": judged.fingerprint} | {
        score: f"{value:.4f}" for score, value in judged.scores.items()
    }
    made = client.create_model_version(name, kept.model_uri, run_id=run_id, tags=tags, model_id=kept.model_id)
    same = [each for each in versions(client, name) if each.tags.get("attn.fingerprint") == judged.fingerprint]
    first = min(same, key=lambda each: int(each.version), default=made)
    if int(first.version) != int(made.version):  # of two at the same time the first stays
        client.delete_model_version(name, str(made.version))
        client.delete_logged_model(kept.model_id)
    crown(client, name)
    return first


def crown(client: MlflowClient, name: str) -> None:
    """Give the alias `champion` to the version with the best BLEU, the older one of equals."""
    scored = [each for each in versions(client, name) if "bleu" in each.tags]
    if scored:
        best = max(scored, key=lambda each: (float(each.tags["bleu"]), -int(each.version)))
        client.set_registered_model_alias(name, CHAMPION, str(best.version))


def versions(client: MlflowClient, name: str) -> list[Any]:
    return list(client.search_model_versions(f"name = '{name}'", max_results=10_000))


def is_registered(client: MlflowClient, recipe: str, fingerprint: str) -> bool:
    """Whether the model that this score is of has its version already."""
    known = versions(client, registered_name(recipe))
    return any(each.tags.get("attn.fingerprint") == fingerprint for each in known)


def registered_name(recipe: str) -> str:
    """A recipe's name in the letters that a registry takes."""
    return re.sub(r"[^0-9A-Za-z_.-]+", "-", recipe).strip("-")
