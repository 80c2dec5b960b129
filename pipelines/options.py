"""The options that several commands of `attn` share, each written once. Standard library only."""

from __future__ import annotations

import argparse
from typing import Any, TypeAlias


class Command(argparse.ArgumentParser):
    """The parser of one command, which remembers what was added to it: the shells' completion is made of that."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.actions: list[argparse.Action] = []
        super().__init__(*args, **kwargs)

    def add_argument(self, *args: Any, **kwargs: Any) -> argparse.Action:
        self.actions.append(super().add_argument(*args, **kwargs))
        return self.actions[-1]


Commands: TypeAlias = "argparse._SubParsersAction[Command]"


def add_command(commands: Commands, name: str, function: str, summary: str) -> Command:
    made = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    made.set_defaults(function=function)
    return made


def add_recipe(command: argparse.ArgumentParser, optional: bool = False) -> None:
    nargs, of_recipe = "?" if optional else None, "its name (`attn recipes` lists them), or a file of your own"
    command.add_argument(
        "recipe",
        nargs=nargs,
        metavar="RECIPE",
        help=of_recipe,
    )
    add_set(command)
    command.add_argument("--rows", metavar="A,B", help='only these rows of a table, e.g. "A/h=1,C/N=2"')
    command.add_argument("--rows-from", metavar="FILE", help="a TOML file with rows of your own")
    command.add_argument("--seeds", type=int, default=1, metavar="N", help="train every row with N seeds")
    command.set_defaults(until=None)
    add_workspace(command)


def add_making(command: argparse.ArgumentParser) -> None:
    """How far and where: of commands that make results, or say what that takes."""
    command.add_argument(
        "--until", metavar="STAGE", help="stop after this stage: corpora, vocabulary, shards, train, ..."
    )
    command.add_argument("--on", default="laptop", metavar="PROFILE", help="where: a name in infra/profiles, or a file")


def add_running(command: argparse.ArgumentParser) -> None:
    """What every command that makes results takes."""
    add_untracked(command)
    command.add_argument(
        "--address", metavar="URL", help="a Ray cluster to run on; default: RAY_ADDRESS, or a Ray here"
    )
    command.add_argument(
        "--events", choices=("text", "json"), default="text", help="how steps are reported: for people, or JSON lines"
    )
    again = "make it again: a stage, or one result's stage/fingerprint"
    command.add_argument("--again", action="append", default=[], metavar="STAGE", help=again)
    command.add_argument("--dashboard", action="store_true", help="with Ray's dashboard, if Ray is started here")


def add_untracked(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--untracked", action="store_true", help="with an object store: MLflow's runs may end with the driver's machine"
    )


def add_set(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set", action="append", default=[], metavar="SECTION.FIELD=VALUE", dest="changes",
        help="change any setting, e.g. training.steps=2000 (may be given many times)",
    )  # fmt: skip


def add_row(command: argparse.ArgumentParser) -> None:
    command.add_argument("--row", metavar="ROW", help='the model of this row of a table, e.g. "C/N=2" or "base@seed2"')


def add_workspace(command: argparse.ArgumentParser) -> None:
    command.add_argument("--workspace", metavar="URI", help="a directory or an object store, e.g. s3://bucket/attn")


def add_address(command: argparse.ArgumentParser) -> None:
    command.add_argument("--address", metavar="URL", help="the cluster's job server, e.g. http://head:8265")


def add_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="answer in JSON")
