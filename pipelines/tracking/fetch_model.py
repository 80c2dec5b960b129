"""The files of a model in MLflow's registry, by models:/NAME, models:/NAME/VERSION or models:/NAME@champion."""

from __future__ import annotations

import os
from pathlib import Path

import mlflow
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from jobs.errors import UserError

os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")


def fetch_model(uri: str, tracking_uri: str) -> Path:
    """A directory of this machine with everything that was registered; without a version, the newest."""
    name, _, version = uri.removeprefix("models:/").partition("/")
    try:
        if "@" in name:
            return Path(mlflow.artifacts.download_artifacts(artifact_uri=uri, tracking_uri=tracking_uri))
        if not version:
            found = MlflowClient(tracking_uri).search_model_versions(f"name = '{name}'")
            if not found:
                raise UserError(f"MLflow at {tracking_uri} knows no model {name!r}: `attn run` registers its recipe's.")
            version = str(max(int(each.version) for each in found))
        return Path(
            mlflow.artifacts.download_artifacts(artifact_uri=f"models:/{name}/{version}", tracking_uri=tracking_uri)
        )
    except (MlflowException, OSError) as error:
        raise UserError(f"{uri} could not be fetched from MLflow: {str(error).splitlines()[0]}") from error
