"""`attn ui`: MLflow's own pages, opened where the runs of a recipe are; `--dashboard`: Ray's."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import webbrowser

from jobs.errors import UserError, reason_of, refuse_unknown
from jobs.passwords import hidden
from pipelines.execution.workspace import Workspace
from pipelines.terminal import interrupt

START_S = 300.0  # on a busy machine it takes its time
END_S = 1.0


def ui(args: argparse.Namespace) -> int:
    if args.dashboard:
        return dashboard(args)
    tracking = importlib.import_module("pipelines.tracking.server")
    workspace = Workspace(args.workspace)
    uri: str = tracking.tracking_uri(workspace)
    page = page_of(args.recipe, tracking.reader(workspace))
    if uri.startswith(("http://", "https://")):
        show(f"{uri.rstrip('/')}/{page}", args.no_browser)
        return 0
    return serve(uri, args.port, page, args.no_browser)


def page_of(recipe: str | None, client: object) -> str:
    """The page that lists the runs of a recipe's experiment; without a recipe, of the newest experiment."""
    search = importlib.import_module("pipelines.tracking.query").experiments
    known: dict[str, str] = search(client)
    if recipe is not None and recipe not in known:
        refuse_unknown("experiment", recipe, known)
    experiment = known.get(recipe) if recipe else next(iter(known.values()), None)
    return f"#/experiments/{experiment}/runs" if experiment else "#/experiments"


def show(address: str, quiet: bool) -> None:
    print(f"MLflow: {hidden(address)}", flush=True)
    if not quiet:
        webbrowser.open(address)


def serve(uri: str, port: int, page: str, quiet: bool) -> int:
    """MLflow's server on this machine alone, until Ctrl-C.

    It is told of the database by its environment: every user of the machine can read a command line.
    """
    require_free(port)
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    print("Starting MLflow ...", file=sys.stderr, flush=True)
    server = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        env={**os.environ, "MLFLOW_BACKEND_STORE_URI": uri},
    )  # fmt: skip
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        wait_until_it_answers(server, port)
        show(f"http://127.0.0.1:{port}/{page}", quiet)
        print("Ctrl-C stops it.", flush=True)
        return server.wait()
    except KeyboardInterrupt:
        interrupt.end_in_order()
        return 0
    finally:
        end(server)


def end(server: subprocess.Popen[bytes]) -> None:
    """With the processes that it started: all of its session."""
    for number, patience in ((signal.SIGTERM, END_S), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(server.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(timeout=patience)
            return


def require_free(port: int) -> None:
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        raise UserError(f"Port {port} cannot be listened on: {reason_of(error)}. Choose another --port.") from error


def wait_until_it_answers(server: subprocess.Popen[bytes], port: int) -> None:
    began = time.monotonic()
    while time.monotonic() - began < START_S:
        if server.poll() is not None:
            raise UserError(f"MLflow's server ended at once, with status {server.returncode}.")
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
            return
        time.sleep(0.2)
    raise UserError(f"MLflow's server did not answer within {START_S:.0f} s.")


def dashboard(args: argparse.Namespace) -> int:
    """Of a Ray that is running: the one at --address or RAY_ADDRESS, or one of this machine."""
    cluster = importlib.import_module("jobs.cluster.connect")
    address = args.address if args.address and args.address.startswith("http") else None
    if address is None:
        address = cluster.dashboard_address(args.address)
    print(f"Ray's dashboard: {address}")
    if not args.no_browser:
        webbrowser.open(address)
    return 0
