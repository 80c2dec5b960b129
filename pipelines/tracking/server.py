"""Which MLflow is meant, whether it is there, and a client that asks it."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

from mlflow.tracking import MlflowClient

from jobs.errors import UserError, first_line, reason_of
from jobs.passwords import take_password
from pipelines.execution.workspace import Workspace

ANSWER_S = 10.0  # for a server to take a connection

logging.getLogger("mlflow").setLevel(logging.WARNING)  # no word about making a database
logging.getLogger("urllib3").setLevel(logging.ERROR)  # it tells of every retry
logging.getLogger("alembic").setLevel(logging.WARNING)
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # else it sleeps for minutes after the server is back


def tracking_uri(workspace: Workspace) -> str:
    """MLFLOW_TRACKING_URI, or a SQLite database beside the results."""
    chosen = take_password(os.environ.get("MLFLOW_TRACKING_URI", ""))
    if chosen:
        os.environ["MLFLOW_TRACKING_URI"] = chosen  # MLflow reads it, too
    return chosen or f"sqlite:///{workspace.local_directory('mlflow')}/mlflow.db"


def require_kept(workspace: Workspace, *, untracked: bool, elsewhere: bool = False) -> None:
    """Refuse runs whose tracking would end with the machine of their driver, unless that is wanted (`--untracked`).

    An object store has no directory for a database. `elsewhere`: the driver will run on a cluster, which has none of
    this machine's files either.
    """
    chosen = os.environ.get("MLFLOW_TRACKING_URI", "")
    if workspace.is_local or untracked or (chosen and not (elsewhere and chosen.startswith("sqlite:"))):
        return
    here = "" if elsewhere else ", or to sqlite:////a/directory/that/stays/mlflow.db"
    raise UserError(
        f"The workspace {workspace.uri} is an object store, which holds no MLflow database, so the runs would be lost "
        f"with the driver's machine. Set MLFLOW_TRACKING_URI to a server (http://host:5000; infra/README.md says how "
        f"to start one){here}; or give --untracked if nobody needs the runs."
    )


def is_absent(workspace: Workspace) -> bool:
    """Whether the database beside the results is still to be made."""
    uri = tracking_uri(workspace)
    return uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).exists()


def reader(workspace: Workspace) -> MlflowClient:
    """For asking only: a database that is not there is not made."""
    if not workspace.is_local and not os.environ.get("MLFLOW_TRACKING_URI"):
        raise UserError(
            f"Where the runs of {workspace.uri} are tracked is not said: set MLFLOW_TRACKING_URI as it was for them."
        )
    if is_absent(workspace):
        raise UserError(f"Nothing is tracked in {workspace.uri} yet: `attn run demo` makes a first result.")
    uri = tracking_uri(workspace)
    require_answer(uri)
    try:
        return MlflowClient(tracking_uri=uri)
    except Exception as error:  # every kind of database has its own
        first = first_line(error) or type(error).__name__
        raise UserError(f"MLflow at {uri} could not answer: {first}.") from error


def require_answer(uri: str) -> None:
    """MLflow itself would try again and again, and then quote the errors of three libraries."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), timeout=ANSWER_S).close()
    except (OSError, ValueError) as error:
        sentence = (
            f"No MLflow server answers at {uri}: {reason_of(error)}. Is it running? MLFLOW_TRACKING_URI names it."
        )
        raise UserError(sentence) from error
