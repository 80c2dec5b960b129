"""`attn`: the command line. This file parses arguments; each command is a module of pipelines/commands.

`--help`, `recipes` and `plan` load neither Ray, torch nor MLflow and answer at once.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TypeAlias

from jobs.errors import UserError
from jobs.passwords import hidden
from pipelines.terminal import interrupt, unforeseen
from pipelines.terminal.environment import call_nobody, keep_ray_private
from pipelines.terminal.redirect_output import prints_everything

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
STARTS_RAY = ("run", "doctor", "lab", "serve")  # where no cluster is named
EPILOG = """\
a first session:
  attn run demo                          the whole pipeline on the demo language, in minutes
  attn translate demo "The doctor sold the house because it was old."
  attn results                           the scores, from MLflow
  attn plan table3                       what the paper's Table 3 would take, and why

Results live in ./workspace (--workspace, or ATTN_WORKSPACE). Tracking goes to SQLite there, or to MLFLOW_TRACKING_URI,
which a workspace on an object store needs.
"""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="attn",
        description="Attention Is All You Need, reproduced end to end on Ray.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"attn {metadata.version('attn')}")
    commands = top.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)

    recipes = _command(
        commands, "recipes", "recipes:recipes", "list what can be run, with the paper's result and the cost"
    )
    recipes.add_argument("--on", metavar="PROFILE", help="estimate the cost there: a name in infra/profiles, or a file")
    _json(recipes)

    plan = _command(commands, "plan", "plan:plan", "what would be made, what is done already, and why")
    _recipe(plan)
    _making(plan)
    _json(plan)

    run = _command(commands, "run", "run:run", "make a recipe's results, here or on a Ray cluster")
    _recipe(run)
    _making(run)
    _running(run)

    verify = _command(commands, "verify", "verify:verify", "whether the results are still what was made, file by file")
    _recipe(verify, optional=True)
    verify.add_argument("--deep", action="store_true", help="read the files and compare digests, not sizes alone")
    _json(verify)

    results = _command(commands, "results", "results:results", "the scores of finished runs, from MLflow")
    results.add_argument("recipe", nargs="?", metavar="RECIPE", help="only this recipe's")
    results.add_argument("--table", type=int, choices=(2, 3, 4), help="a table of the paper, ours beside it")
    results.add_argument("--lab", action="store_true", help="the lab's claims, figures and verdicts")
    results.add_argument("--best", metavar="METRIC", help="the one run with the best METRIC (bleu, chrf, perplexity)")
    results.add_argument("--where", metavar="FILTER", help="an MLflow filter, e.g. \"params.num_heads = '8'\"")
    results.add_argument("--compare", nargs=2, metavar=("A", "B"), help="two runs: config, data, scores, significance")
    results.add_argument("--format", choices=("table", "csv", "json", "markdown"), default="table")
    results.add_argument("--json", action="store_const", const="json", dest="format", help="same as --format json")
    _workspace(results)

    report = _command(commands, "report", "report:report", "print a recipe's report and open its page")
    _recipe(report)
    _json(report)

    data = _command(commands, "data", "data:data", "what is in a recipe's data: counts, lengths, dropped pairs")
    data.add_argument("action", choices=("show",))
    _recipe(data)
    _json(data)

    doctor = _command(commands, "doctor", "doctor:doctor", "check this machine, or a cluster")
    _address(doctor)
    doctor.add_argument("--on", default="laptop", metavar="PROFILE", help="is there enough for this profile")
    doctor.add_argument("--measure", action="store_true", help="have the profile's workers measure what training meets")
    _json(doctor)
    _workspace(doctor)
    _using_a_model(commands)
    _in_the_lab(commands)
    _on_a_cluster(commands)
    return top


def _using_a_model(commands: Commands) -> None:
    translate = _command(commands, "translate", "translate:translate", "translate with a trained model")
    translate.add_argument("model", metavar="RECIPE|DIR", help="a recipe that was run, or a model directory")
    translate.add_argument("text", nargs="*", metavar="TEXT", help="sentences; without any, lines of standard input")
    translate.add_argument("--input", metavar="FILE", help="translate a file, line by line")
    translate.add_argument("--beam", type=int, help="hypotheses kept at each step (4)")
    translate.add_argument("--alpha", type=float, help="length penalty (0.6)")
    translate.add_argument("--n-best", type=int, default=1, metavar="N", help="show the N best, with their scores")
    translate.add_argument("--scores", action="store_true", help="show each translation's score")
    translate.add_argument("--attention", metavar="FILE", help="write attention pictures of the sentences (.html)")
    translate.add_argument("--engine", choices=("torch", "ctranslate2"), default="torch", help="what computes it")
    _set(translate)
    _json(translate)
    _workspace(translate)

    parse = _command(commands, "parse", "parse:parse", "sentences to trees, with a trained parsing model")
    parse.add_argument("model", metavar="RECIPE|DIR", help="a recipe that was run, or a model directory")
    parse.add_argument("text", nargs="*", metavar="TEXT", help="sentences; without any, lines of standard input")
    parse.add_argument("--input", metavar="FILE", help="parse a file, line by line")
    parse.add_argument("--words", action="store_true", help="a text's words stand apart already: cut it at blanks only")
    parse.add_argument("--pretty", action="store_true", help="a tree over several lines, indented")
    parse.add_argument("--svg", metavar="FILE", help="draw the trees (.svg)")
    parse.add_argument("--free", action="store_true", help="any output, repaired where it is no tree (the paper's way)")
    parse.add_argument("--beam", type=int, help="hypotheses kept at each step (21)")
    parse.add_argument("--alpha", type=float, help="length penalty (0.3)")
    _set(parse)
    _json(parse)
    _workspace(parse)

    export = _command(commands, "export", "export:export", "a trained model for another engine")
    export.add_argument("model", metavar="RECIPE|DIR")
    export.add_argument("--to", choices=("ctranslate2",), required=True)
    export.add_argument("--output", metavar="DIR", help="where to; default: ./<recipe>-ctranslate2")
    _set(export)
    _workspace(export)
    _serve(commands)


def _serve(commands: Commands) -> None:
    serve = _command(commands, "serve", "serve:serve", "a web page and an HTTP API for trained models")
    serve.add_argument(
        "models", nargs="*", metavar="RECIPE|DIR|models:/NAME", help="one or more; NAME=... in front names it"
    )
    serve.add_argument("--host", default="127.0.0.1", help="where to listen; any but this machine itself needs --keys")
    serve.add_argument("--port", type=int, default=8000)
    serve.add_argument("--engine", choices=("torch", "ctranslate2", "ctranslate2-int8"), default="torch")
    serve.add_argument("--languages", metavar="SOURCE-TARGET", help="e.g. en-de, where no recipe says it")
    serve.add_argument("--replicas", metavar="N|MIN-MAX", help="copies of each model; default: the profile's")
    serve.add_argument("--keys", metavar="FILE", help="let in only who sends one of these API keys")
    serve.add_argument("--new-key", metavar="OWNER", help="make a key, add its hash to --keys FILE, and end")
    serve.add_argument("--rate", type=int, metavar="N", help="requests per minute of each key")
    serve.add_argument("--characters", type=int, metavar="N", help="in one request (10,000)")
    serve.add_argument("--timeout", type=float, metavar="SECONDS", help="until a request is given up (60)")
    serve.add_argument("--cors", action="append", default=[], metavar="ORIGIN", help="let this site's pages call us")
    serve.add_argument("--log-text", action="store_true", help="write what is translated into the logs")
    serve.add_argument("--address", metavar="URL", help="a Ray cluster to run on; default: RAY_ADDRESS, or a Ray here")
    serve.add_argument("--on", default="laptop", metavar="PROFILE", help="where: a name in infra/profiles, or a file")
    _set(serve)
    _json(serve)
    _workspace(serve)


def _in_the_lab(commands: Commands) -> None:
    lab = _command(commands, "lab", "lab:lab", "the paper's mechanisms, measured: without a name, what there is")
    lab.add_argument("name", nargs="*", metavar="NAME", help="an experiment, or all")
    lab.add_argument("--quick", action="store_true", help="small sizes, for a first look: all in under 6 minutes")
    lab.add_argument("--seeds", type=int, default=1, metavar="N", help="repeat with N seeds, and show the spread")
    lab.add_argument("--on", default="laptop", metavar="PROFILE", help="where: a name in infra/profiles, or a file")
    _set(lab)
    _running(lab)
    _workspace(lab)
    _json(lab)


def _on_a_cluster(commands: Commands) -> None:
    submit = _command(commands, "submit", "submit:submit", "run a recipe as a job on a Ray cluster")
    _recipe(submit)
    _making(submit)
    _address(submit)
    _untracked(submit)
    submit.add_argument("--follow", action="store_true", help="stay and watch, as if it ran here")

    jobs = _command(commands, "jobs", "jobs:jobs", "recipes that were submitted to a cluster")
    _address(jobs)
    _json(jobs)
    for name, summary in (
        ("logs", "the log of a submitted job"),
        ("stop", "stop a submitted job; what it finished stays"),
        ("status", "how a submitted job is doing"),
    ):
        command = _command(commands, name, f"jobs:{name}", summary)
        command.add_argument("job", metavar="ID|RECIPE", help="a job's id, or a recipe: your newest job of it")
        _address(command)
        _workspace(command)
        if name == "logs":
            command.add_argument("--follow", action="store_true", help="go on until the job is over")
        if name == "status":
            _json(command)


def _command(commands: Commands, name: str, function: str, summary: str) -> argparse.ArgumentParser:
    made = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    made.set_defaults(function=function)
    return made


def _recipe(command: argparse.ArgumentParser, optional: bool = False) -> None:
    nargs = "?" if optional else None
    command.add_argument("recipe", nargs=nargs, metavar="RECIPE", help="its name; `attn recipes` lists them")
    _set(command)
    command.add_argument("--rows", metavar="A,B", help='only these rows of a table, e.g. "A/h=1,C/N=2"')
    command.add_argument("--rows-from", metavar="FILE", help="a TOML file with rows of your own")
    command.add_argument("--seeds", type=int, default=1, metavar="N", help="train every row with N seeds")
    command.set_defaults(until=None)
    _workspace(command)


def _making(command: argparse.ArgumentParser) -> None:
    """How far and where: of commands that make results, or say what that takes."""
    command.add_argument(
        "--until", metavar="STAGE", help="stop after this stage: corpora, vocabulary, shards, train, ..."
    )
    command.add_argument("--on", default="laptop", metavar="PROFILE", help="where: a name in infra/profiles, or a file")


def _running(command: argparse.ArgumentParser) -> None:
    """What every command that makes results takes."""
    _untracked(command)
    command.add_argument(
        "--address", metavar="URL", help="a Ray cluster to run on; default: RAY_ADDRESS, or a Ray here"
    )
    command.add_argument(
        "--events", choices=("text", "json"), default="text", help="how steps are reported: for people, or JSON lines"
    )
    again = "make it again: a stage, or one result's stage/fingerprint"
    command.add_argument("--again", action="append", default=[], metavar="STAGE", help=again)
    command.add_argument("--dashboard", action="store_true", help="with Ray's dashboard, if Ray is started here")


def _untracked(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--untracked", action="store_true", help="with an object store: MLflow's runs may end with the driver's machine"
    )


def _set(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set", action="append", default=[], metavar="SECTION.FIELD=VALUE", dest="changes",
        help="change any setting, e.g. training.steps=2000 (may be given many times)",
    )  # fmt: skip


def _workspace(command: argparse.ArgumentParser) -> None:
    command.add_argument("--workspace", metavar="URI", help="a directory or an object store, e.g. s3://bucket/attn")


def _address(command: argparse.ArgumentParser) -> None:
    command.add_argument("--address", metavar="URL", help="the cluster's job server, e.g. http://head:8265")


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="answer in JSON")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Sentences to translate may stand behind options too, where argparse by itself no longer expects them."""
    args, rest = parser().parse_known_args(arguments)
    if rest and (args.command not in ("translate", "parse") or any(word.startswith("--") for word in rest)):
        parser().error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        args.text = [*args.text, *rest]
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    if arguments is None:
        interrupt.end_soon()
    try:
        return _answer(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return interrupt.INTERRUPTED


def _answer(given: Sequence[str]) -> int:
    call_nobody()
    if not given:
        parser().print_help()
        return 0
    args = parse(given)
    if args.command in STARTS_RAY and not (getattr(args, "address", None) or os.environ.get("RAY_ADDRESS")):
        keep_ray_private()
    module, _, function = args.function.partition(":")
    try:
        return int(getattr(importlib.import_module(f"pipelines.commands.{module}"), function)(args))
    except UserError as error:
        print(f"attn: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception as error:  # the one place for what nobody foresaw
        if prints_everything(getattr(args, "address", None)):
            print(hidden("".join(traceback.format_exception(error))), file=sys.stderr)
        print(f"attn: {unforeseen.sentence(error, args.command, _logs(args))}", file=sys.stderr)
        return 1


def _logs(args: argparse.Namespace) -> Path:
    """Beside the results, where they are local and there are any."""
    place = Path(getattr(args, "workspace", None) or os.environ.get("ATTN_WORKSPACE") or "workspace")
    return place / "logs" if place.is_dir() else Path(tempfile.gettempdir())


if __name__ == "__main__":
    sys.exit(main())
