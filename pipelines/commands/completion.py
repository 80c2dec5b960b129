"""`attn completion SHELL`: a script with which the shell completes commands, options, recipes, rows and settings."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable, Mapping

from jobs.cluster.profiles import profile_names
from jobs.lab.questions import QUESTIONS
from pipelines.options import Command
from pipelines.recipes.experiment import DemoText, Experiment, FilesText
from pipelines.recipes.meanings import settings_of
from pipelines.recipes.recipes import RECIPES
from pipelines.recipes.table3 import TABLE_3
from pipelines.steps.plan import in_order
from pipelines.terminal.completion import SHELLS, words_of


def completion(args: argparse.Namespace) -> int:
    commands: Mapping[str, Command] = importlib.import_module("pipelines.cli").parser_and_commands()[1].choices
    known = known_words()
    print(SHELLS[args.shell]([words_of(name, command, known) for name, command in commands.items()]), end="")
    return 0


def known_words() -> Mapping[str, Iterable[str]]:
    """By what the help calls them."""
    experiments = (Experiment(), Experiment(corpus=DemoText()), Experiment(corpus=FilesText()))
    settings = dict.fromkeys(f"{each.name}=" for experiment in experiments for each in settings_of(experiment))
    return {
        "RECIPE": list(RECIPES),
        "RECIPE|DIR": list(RECIPES),
        "RECIPE|DIR|models:/NAME": list(RECIPES),
        "SECTION.FIELD=VALUE": list(settings),
        "SECTION": list(dict.fromkeys(name.partition(".")[0] for name in settings)),
        "PROFILE": profile_names(),
        "ROW": list(TABLE_3),
        "A,B": list(TABLE_3),
        "STAGE": list(dict.fromkeys(step.stage.name for step in in_order([RECIPES["demo"].step()]))),
        "NAME": [*QUESTIONS, "all"],
    }
