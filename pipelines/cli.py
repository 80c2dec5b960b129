"""`attn`: the command line. This file parses arguments; each command is a module of pipelines/commands.

`--help`, `recipes` and `plan` load neither Ray, torch nor MLflow and answer at once.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from jobs.errors import UserError
from jobs.passwords import hidden
from pipelines.options import (
    Command,
    Commands,
    add_address,
    add_command,
    add_json,
    add_making,
    add_recipe,
    add_row,
    add_running,
    add_set,
    add_untracked,
    add_workspace,
)
from pipelines.terminal import interrupt, streams, unforeseen
from pipelines.terminal.completion import SHELLS
from pipelines.terminal.environment import call_nobody, keep_ray_private
from pipelines.terminal.redirect_output import prints_everything

TAKES_TEXT = ("translate", "parse", "vocabulary")
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
    return parser_and_commands()[0]


def parser_and_commands() -> tuple[argparse.ArgumentParser, Commands]:
    top = argparse.ArgumentParser(
        prog="attn",
        description="Attention Is All You Need, reproduced end to end on Ray.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"attn {metadata.version('attn')}")
    commands = top.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", required=True, parser_class=Command
    )
    _running_a_recipe(commands)
    _what_came_out(commands)
    _looking_closer(commands)
    _using_a_model(commands)
    _in_the_lab(commands)
    _on_a_cluster(commands)
    return top, commands


def _running_a_recipe(commands: Commands) -> None:
    recipes = add_command(
        commands, "recipes", "recipes:recipes", "list what can be run, with the paper's result and the cost"
    )
    recipes.add_argument("--on", metavar="PROFILE", help="estimate the cost there: a name in infra/profiles, or a file")
    add_workspace(recipes)
    add_json(recipes)

    settings = add_command(commands, "settings", "settings:settings", "every setting, its default and its meaning")
    settings.add_argument("recipe", nargs="?", metavar="RECIPE", help="as this recipe has them")
    settings.add_argument("section", nargs="?", metavar="SECTION", help="only these, e.g. training")
    add_set(settings)
    add_workspace(settings)
    add_json(settings)

    plan = add_command(commands, "plan", "plan:plan", "what would be made, what is done already, and why")
    add_recipe(plan)
    add_making(plan)
    plan.add_argument("--steps", action="store_true", help="of a large recipe too, every step with its reason")
    plan.add_argument("--save", metavar="FILE.toml", help="write it as a recipe of your own")
    add_json(plan)

    run = add_command(commands, "run", "run:run", "make a recipe's results, here or on a Ray cluster")
    add_recipe(run)
    add_making(run)
    add_running(run)

    verify = add_command(
        commands, "verify", "verify:verify", "whether the results are still what was made, file by file"
    )
    add_recipe(verify, optional=True)
    verify.add_argument("--deep", action="store_true", help="read the files and compare digests, not sizes alone")
    add_json(verify)


def _what_came_out(commands: Commands) -> None:
    results = add_command(commands, "results", "results:results", "the scores of finished runs, from MLflow")
    results.add_argument("recipe", nargs="?", metavar="RECIPE", help="only this recipe's")
    results.add_argument("--table", type=int, choices=(2, 3, 4), help="a table of the paper, ours beside it")
    results.add_argument("--lab", action="store_true", help="the lab's claims, figures and verdicts")
    results.add_argument("--best", metavar="METRIC", help="the one run with the best METRIC (bleu, chrf, perplexity)")
    results.add_argument("--where", metavar="FILTER", help="an MLflow filter, e.g. \"params.num_heads = '8'\"")
    results.add_argument("--compare", nargs=2, metavar=("A", "B"), help="two runs: config, data, scores, significance")
    results.add_argument("--format", choices=("table", "csv", "json", "markdown"), default="table")
    results.add_argument("--json", action="store_const", const="json", dest="format", help="same as --format json")
    add_workspace(results)

    report = add_command(commands, "report", "report:report", "what came out of a recipe, in short, and its page")
    add_recipe(report)
    report.add_argument("--open", action="store_true", help="show the page in a browser")
    add_json(report)

    data = add_command(commands, "data", "data:data", "what is in a recipe's data: counts, lengths, dropped pairs")
    data.add_argument("action", choices=("show",))
    add_recipe(data)
    add_json(data)


def _looking_closer(commands: Commands) -> None:
    doctor = add_command(commands, "doctor", "doctor:doctor", "check this machine, or a cluster")
    add_address(doctor)
    doctor.add_argument("--on", default="laptop", metavar="PROFILE", help="is there enough for this profile")
    doctor.add_argument("--measure", action="store_true", help="have the profile's workers measure what training meets")
    add_json(doctor)
    add_workspace(doctor)

    vocabulary = add_command(commands, "vocabulary", "vocabulary:vocabulary", "how text is cut into subwords")
    vocabulary.add_argument("model", metavar="RECIPE|DIR", help="a recipe that was run, or a model directory")
    vocabulary.add_argument("text", nargs="*", metavar="TEXT", help="sentences; without any, lines of standard input")
    add_set(vocabulary)
    add_json(vocabulary)
    add_workspace(vocabulary)

    gc = add_command(
        commands, "gc", "gc:gc", "what takes how much room, and what nothing needs; asks before it deletes"
    )
    gc.add_argument("--yes", action="store_true", help="delete what nothing needs, and do not ask")
    add_json(gc)
    add_workspace(gc)

    ui = add_command(commands, "ui", "ui:ui", "MLflow's pages, opened where the runs are")
    ui.add_argument("recipe", nargs="?", metavar="RECIPE", help="this recipe's; default: the newest")
    ui.add_argument("--port", type=int, default=5000)
    ui.add_argument("--no-browser", action="store_true", help="print the page's address, and open nothing")
    ui.add_argument("--dashboard", action="store_true", help="Ray's dashboard instead, of a cluster that is running")
    add_address(ui)
    add_workspace(ui)

    completion = add_command(commands, "completion", "completion:completion", "a script that lets the shell complete")
    completion.add_argument("shell", choices=tuple(SHELLS), help='eval "$(attn completion bash)" switches it on')


def _using_a_model(commands: Commands) -> None:
    translate = add_command(commands, "translate", "translate:translate", "translate with a trained model")
    translate.add_argument("model", metavar="RECIPE|DIR", help="a recipe that was run, or a model directory")
    translate.add_argument("text", nargs="*", metavar="TEXT", help="sentences; without any, lines of standard input")
    translate.add_argument("--input", metavar="FILE", help="translate a file, line by line")
    translate.add_argument("--beam", type=int, help="hypotheses kept at each step (4)")
    translate.add_argument("--alpha", type=float, help="length penalty (0.6)")
    translate.add_argument("--n-best", type=int, default=1, metavar="N", help="show the N best, with their scores")
    add_row(translate)
    translate.add_argument("--scores", action="store_true", help="show each translation's score")
    translate.add_argument("--attention", metavar="FILE", help="write attention pictures of the sentences (.html)")
    translate.add_argument("--engine", choices=("torch", "ctranslate2"), default="torch", help="what computes it")
    add_set(translate)
    add_json(translate)
    add_workspace(translate)

    parse = add_command(commands, "parse", "parse:parse", "sentences to trees, with a trained parsing model")
    parse.add_argument("model", metavar="RECIPE|DIR", help="a recipe that was run, or a model directory")
    parse.add_argument("text", nargs="*", metavar="TEXT", help="sentences; without any, lines of standard input")
    parse.add_argument("--input", metavar="FILE", help="parse a file, line by line")
    parse.add_argument("--words", action="store_true", help="a text's words stand apart already: cut it at blanks only")
    parse.add_argument("--pretty", action="store_true", help="a tree over several lines, indented")
    parse.add_argument("--svg", metavar="FILE", help="draw the trees (.svg)")
    parse.add_argument("--free", action="store_true", help="any output, repaired where it is no tree (the paper's way)")
    parse.add_argument("--beam", type=int, help="hypotheses kept at each step (21)")
    parse.add_argument("--alpha", type=float, help="length penalty (0.3)")
    add_row(parse)
    add_set(parse)
    add_json(parse)
    add_workspace(parse)

    export = add_command(commands, "export", "export:export", "a trained model for another engine")
    export.add_argument("model", metavar="RECIPE|DIR")
    export.add_argument("--to", choices=("ctranslate2", "huggingface"), required=True)
    add_row(export)
    export.add_argument("--output", metavar="DIR", help="where to; default: ./<recipe>-<engine>")
    add_set(export)
    add_workspace(export)
    _serve(commands)


def _serve(commands: Commands) -> None:
    serve = add_command(commands, "serve", "serve:serve", "a web page and an HTTP API for trained models")
    serve.add_argument(
        "models", nargs="*", metavar="RECIPE|DIR|models:/NAME", help="one or more, named by NAME=... or NAME:en-fr=..."
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
    serve.add_argument("--concurrent", type=int, metavar="N", help="requests at once; more are told to try again (512)")
    serve.add_argument("--timeout", type=float, metavar="SECONDS", help="until a request is given up (60)")
    serve.add_argument("--cors", action="append", default=[], metavar="ORIGIN", help="let this site's pages call us")
    serve.add_argument("--log-text", action="store_true", help="write what is translated into the logs")
    serve.add_argument("--address", metavar="URL", help="a Ray cluster to run on; default: RAY_ADDRESS, or a Ray here")
    serve.add_argument("--on", default="laptop", metavar="PROFILE", help="where: a name in infra/profiles, or a file")
    add_set(serve)
    add_json(serve)
    add_workspace(serve)


def _in_the_lab(commands: Commands) -> None:
    lab = add_command(commands, "lab", "lab:lab", "the paper's mechanisms, measured: without a name, what there is")
    lab.add_argument("name", nargs="*", metavar="NAME", help="an experiment, or all")
    lab.add_argument("--quick", action="store_true", help="small sizes, for a first look: all in under 6 minutes")
    lab.add_argument("--seeds", type=int, default=1, metavar="N", help="repeat with N seeds, and show the spread")
    lab.add_argument("--on", default="laptop", metavar="PROFILE", help="where: a name in infra/profiles, or a file")
    add_set(lab)
    add_running(lab)
    add_workspace(lab)
    add_json(lab)


def _on_a_cluster(commands: Commands) -> None:
    submit = add_command(commands, "submit", "submit:submit", "run a recipe as a job on a Ray cluster")
    add_recipe(submit)
    add_making(submit)
    add_address(submit)
    add_untracked(submit)
    submit.add_argument("--follow", action="store_true", help="stay and watch, as if it ran here")

    jobs = add_command(commands, "jobs", "jobs:jobs", "recipes that were submitted to a cluster")
    add_address(jobs)
    add_json(jobs)
    for name, summary in (
        ("logs", "the log of a submitted job"),
        ("stop", "stop a submitted job; what it finished stays"),
        ("status", "how a submitted job is doing"),
    ):
        command = add_command(commands, name, f"jobs:{name}", summary)
        command.add_argument("job", metavar="ID|RECIPE", help="a job's id, or a recipe: your newest job of it")
        add_address(command)
        add_workspace(command)
        if name == "logs":
            command.add_argument("--follow", action="store_true", help="go on until the job is over")
        if name == "status":
            add_json(command)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Sentences may stand behind options too, where argparse by itself no longer expects them."""
    args, rest = parser().parse_known_args(arguments)
    if rest and (args.command not in TAKES_TEXT or any(word.startswith("--") for word in rest)):
        parser().error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        args.text = [*args.text, *rest]
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    if arguments is None:
        streams.make_usable()  # before anything is opened that might take the place of one that is closed
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
        require_directory()
        status = int(getattr(importlib.import_module(f"pipelines.commands.{module}"), function)(args))
        sys.stdout.flush()  # here, where what goes wrong with it can be said
        return status
    except UserError as error:
        print(f"attn: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # rich met one, in `attn plan | head`
            return 0
        raise
    except Exception as error:  # the one place for what nobody foresaw
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            streams.drop_output()
            where = error.filename or "where the output goes"
            print(f"attn: There is no room left ({where}). Free some, and run the same again.", file=sys.stderr)
            return 2
        if prints_everything(getattr(args, "address", None)):
            print(hidden("".join(traceback.format_exception(error))), file=sys.stderr)
        print(f"attn: {unforeseen.sentence(error, args.command, _logs(args))}", file=sys.stderr)
        return 1


def require_directory() -> None:
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UserError("The current directory was removed: change to one that exists.") from None


def _logs(args: argparse.Namespace) -> Path:
    """Beside the results, where they are local and there are any."""
    place = Path(getattr(args, "workspace", None) or os.environ.get("ATTN_WORKSPACE") or "workspace")
    return place / "logs" if place.is_dir() else Path(tempfile.gettempdir())


if __name__ == "__main__":
    sys.exit(main())
