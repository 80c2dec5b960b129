"""`attn serve`: trained models as a web page and an HTTP API, on this machine or on a Ray cluster."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from jobs.cluster.profiles import load_profile
from jobs.configs import ServeResources
from jobs.corpora.demo.shown import FIRST
from jobs.errors import UserError, reason_of
from jobs.serve.http.keys import add_key, load_keys
from jobs.serve.settings import LANGUAGES, NAMED, Limits, ServedModel, ServeSettings
from pipelines.execution.model_directory import model_directory, model_step
from pipelines.execution.workspace import Workspace
from pipelines.recipes.saved import find_recipe, is_recipe
from pipelines.steps.plan import in_order
from pipelines.terminal import interrupt
from transformer.config import MODEL_FILES

OPTIONS = {
    "requests_per_minute": "--rate", "characters": "--characters", "concurrent": "--concurrent",
    "timeout_s": "--timeout",
}  # fmt: skip


def serve(args: argparse.Namespace) -> int:
    if args.new_key is not None:
        return _new_key(args)
    if not args.models:
        raise UserError("Which model? `attn serve demo` serves the demo's, `attn serve DIR` that of a directory.")
    with contextlib.ExitStack() as held:
        models = tuple(held.enter_context(_model(args, text)) for text in args.models)
        settings = _settings(args, models)
        _require_free_port(settings.host, settings.port)
        return _run(args, settings)


def _new_key(args: argparse.Namespace) -> int:
    if args.keys is None:
        raise UserError("--new-key needs --keys FILE: the file that the key's hash is written to.")
    print(add_key(Path(args.keys), args.new_key))
    print(f"This is {args.new_key}'s key. It is shown once: {args.keys} holds only its hash.", file=sys.stderr)
    return 0


def _settings(args: argparse.Namespace, models: tuple[ServedModel, ...]) -> ServeSettings:
    keys = load_keys(Path(args.keys)) if args.keys is not None else None
    limits = {
        "requests_per_minute": args.rate, "characters": args.characters, "concurrent": args.concurrent,
        "timeout_s": args.timeout,
    }  # fmt: skip
    try:
        return ServeSettings(
            models=models,
            host=args.host,
            port=args.port,
            keys=keys,
            cors=tuple(args.cors),
            log_text=args.log_text,
            limits=Limits(**{name: value for name, value in limits.items() if value is not None}),
            on=_resources(args),
        )
    except ValueError as error:
        sentence = str(error)
        for name, option in OPTIONS.items():
            sentence = sentence.replace(name, option)
        raise UserError(f"{sentence}.") from error


def _resources(args: argparse.Namespace) -> ServeResources:
    on = load_profile(args.on).serve
    if args.replicas is None:
        return on
    least, _, most = args.replicas.partition("-")
    if not (least.isdigit() and (most or least).isdigit()):
        raise UserError(f"--replicas is a number or a range such as 1-4, not {args.replicas!r}.")
    return replace(on, min_replicas=int(least), max_replicas=int(most or least))


# --- which model -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _model(args: argparse.Namespace, text: str) -> Iterator[ServedModel]:
    """RECIPE, DIR or models:/NAME, each with NAME= or NAME:en-fr= in front if it is to be called otherwise."""
    named = NAMED.fullmatch(text)
    place = named["model"] if named else text
    source, target = _languages(args, place, named["languages"] if named else None)
    with _directory(args, place) as directory:
        name = named["name"] if named else re.sub(r"[^\w.-]+", "-", _short(place)).strip("-")
        yield ServedModel(name=name or "model", directory=directory, source=source, target=target, engine=args.engine)


def _short(place: str) -> str:
    """demo for a recipe or models:/demo/1, the last part of a directory's path."""
    parts = [part for part in place.removeprefix("models:/").split("/") if part]
    return parts[0] if place.startswith("models:/") and parts else parts[-1] if parts else ""


@contextlib.contextmanager
def _directory(args: argparse.Namespace, place: str) -> Iterator[str]:
    """An absolute path, or the address on an object store, from where each replica fetches it."""
    if place.startswith("models:/"):
        yield str(_registered(args, place).resolve())
        return
    if is_recipe(place, Workspace(args.workspace)) and not Workspace(args.workspace).is_local:
        workspace = Workspace(args.workspace)
        recipe = find_recipe(place, workspace)
        step = model_step(recipe, args.changes, None)
        workspace.finished(step, recipe.name)
        yield workspace.artifact(step).uri
        return
    named = argparse.Namespace(model=place, workspace=args.workspace, changes=args.changes, row=None)
    with model_directory(named) as directory:
        yield str(directory.resolve())


def _registered(args: argparse.Namespace, uri: str) -> Path:
    """The files of a model in MLflow's registry; without a version, the newest."""
    tracking = importlib.import_module("pipelines.tracking.writer")
    fetch = importlib.import_module("pipelines.tracking.fetch_model")
    fetched: Path = fetch.fetch_model(uri, tracking.tracking_uri(Workspace(args.workspace)))
    found = next((file.parent for file in sorted(fetched.rglob(MODEL_FILES[0]))), None)
    if found is None or any(not (found / name).is_file() for name in MODEL_FILES):
        raise UserError(f"{uri} is not a model of ours: it has no {', '.join(MODEL_FILES)}.")
    return found


def _languages(args: argparse.Namespace, place: str, own: str | None) -> tuple[str, str]:
    """What the model's name or --languages says, or what the recipe's data says, or English to German."""
    if own or args.languages is not None:
        match = LANGUAGES.fullmatch(own or args.languages)
        if match is None:
            raise UserError(f"--languages is two codes such as en-de, not {args.languages!r}.")
        return match["source"], match["target"]
    workspace = Workspace(args.workspace)
    recipe = _short(place) if place.startswith("models:/") else place
    if is_recipe(recipe, workspace):
        for step in in_order([find_recipe(recipe, workspace).step(args.changes)]):
            if step.stage.is_dataset:
                with contextlib.suppress(OSError, ValueError, KeyError):
                    about = workspace.artifact(step).read_json("about.json")
                    return str(about["source_language"]), str(about["target_language"])
    return "en", "de"


# --- running -----------------------------------------------------------------------------------------------------


def _require_free_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except (OSError, OverflowError) as error:
        raise UserError(f"{host}:{port} cannot be listened on: {reason_of(error)}. Choose another --port.") from error


def _run(args: argparse.Namespace, settings: ServeSettings) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print("Checking the models and starting Ray ...", file=sys.stderr, flush=True)
    engine = importlib.import_module("jobs.serve.engine")
    for model in settings.models:
        engine.check(model)
    settings = replace(settings, models=tuple(engine.with_kind(model) for model in settings.models))
    connect = importlib.import_module("jobs.cluster.connect")
    needed = 1 + len(settings.models) * settings.on.max_replicas * settings.on.cpus_per_replica
    connect.connect(args.address, cpus=needed, object_store_gb=0.25)
    deployment = importlib.import_module("jobs.serve.deployment")
    stopped = threading.Event()
    try:
        deployment.start(settings)
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, lambda *_: stopped.set())
        interrupt.end_in_order()
        _say_ready(args, settings)
        stopped.wait()
        print("Finishing what is under way ...", file=sys.stderr, flush=True)
    finally:
        deployment.stop(draining=stopped.is_set())
        importlib.import_module("ray").shutdown()
    print("Stopped.", file=sys.stderr)
    return 0


def _say_ready(args: argparse.Namespace, settings: ServeSettings) -> None:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{settings.port}"
    names = [model.name for model in settings.models]
    if args.json:
        print(json.dumps({"address": address, "models": names}), flush=True)
        return
    first = settings.models[0]
    path, body = "/translate", json.dumps({"q": FIRST, "source": first.source, "target": first.target})
    if first.parses:
        path, body = "/v1/translate", json.dumps({"text": FIRST})
    print(f"Ready: {address}   {', '.join(names)}")
    print(f"  the page          {address}/")
    print(f"  the API           {address}/docs   (LibreTranslate's, and our own)")
    print(f"  try               curl -s {address}{path} -H 'Content-Type: application/json' -d '{body}'")
    print("Ctrl-C stops it.", flush=True)
