"""A trained model in MLflow: loadable with one line anywhere, and registered under its recipe's name with its scores.

    mlflow.pyfunc.load_model("models:/base-en-de/1").predict(["A sentence."])

"The best En-De model" is then a query: `client.search_model_versions("name = 'base-en-de'")`, each version tagged with
its scores; or `mlflow.search_logged_models(filter_string="metrics.bleu > 20")`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlflow
from mlflow.tracking import MlflowClient

from transformer.config import CONFIG, SUBWORDS, WEIGHTS

ARTIFACTS = {"config": CONFIG, "weights": WEIGHTS, "subwords": SUBWORDS}  # by the names that pyfunc.py asks for
NEEDED = ("torch", "numpy", "sentencepiece", "safetensors")
ROOT = Path(__file__).resolve().parents[2]

os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")


def log_model(
    client_run_id: str,
    model_directory: Path,
    recipe: str,
    scores: Mapping[str, float],
    tracking_uri: str | None = None,
    fingerprint: str = "",
) -> str:
    """Keep a model directory in MLflow under a run, register it under its recipe's name; its models:/name/version."""
    if tracking_uri is not None:
        mlflow.set_tracking_uri(tracking_uri)
    client = MlflowClient(tracking_uri)
    experiment = client.get_run(client_run_id).info.experiment_id
    logged = client.create_logged_model(experiment, name="model", source_run_id=client_run_id)
    kept = mlflow.models.Model.log(
        artifact_path=None,
        name="model",
        flavor=mlflow.pyfunc,
        run_id=client_run_id,
        python_model=str(ROOT / "pipelines" / "tracking" / "pyfunc.py"),
        artifacts={key: str(model_directory / name) for key, name in ARTIFACTS.items()},
        code_paths=[str(ROOT / "transformer")],
        pip_requirements=[f"{name}=={version(name)}" for name in ("mlflow", *NEEDED)],
        model_id=logged.model_id,
    )
    for name, value in scores.items():
        client.log_metric(client_run_id, name, float(value), model_id=kept.model_id)
    registered = register(client, kept, recipe, client_run_id, scores, fingerprint)
    return f"models:/{registered.name}/{registered.version}"


def register(
    client: MlflowClient, kept: Any, recipe: str, run_id: str, scores: Mapping[str, float], fingerprint: str
) -> Any:
    name = registered_name(recipe)
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name, description=f"Models of the recipe {recipe}.")
    tags = {"attn.recipe": recipe, "attn.fingerprint": fingerprint} | {
        score: f"{value:.4f}" for score, value in scores.items()
    }
    return client.create_model_version(name, kept.model_uri, run_id=run_id, tags=tags, model_id=kept.model_id)


def is_registered(client: MlflowClient, recipe: str, fingerprint: str) -> bool:
    """Whether the model that this score is of has its version already."""
    versions = client.search_model_versions(f"name = '{registered_name(recipe)}'")
    return any(version.tags.get("attn.fingerprint") == fingerprint for version in versions)


def registered_name(recipe: str) -> str:
    """A recipe's name in the letters that a registry takes."""
    return re.sub(r"[^0-9A-Za-z_.-]+", "-", recipe).strip("-")
