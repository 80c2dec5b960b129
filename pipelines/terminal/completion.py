"""Completion for bash, zsh and fish, written from the command line's own parser. Standard library only.

What follows a word is known when the script is made: commands, options, recipes, profiles, rows, settings; a file where
one is asked for. Nothing is run while somebody types.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.options import Command

FILES = ("FILE", "FILE.toml", "DIR", "URI", "RECIPE|DIR", "RECIPE|DIR|models:/NAME")


@dataclass(frozen=True)
class Option:
    flags: tuple[str, ...]
    summary: str
    takes: str | None = None  # the metavar of its value; None: it takes none
    words: tuple[str, ...] = ()  # that may follow

    @property
    def files(self) -> bool:
        return self.takes in FILES


@dataclass(frozen=True)
class Words:
    """One command: its options, and what may stand without one."""

    name: str
    summary: str
    options: Sequence[Option] = field(default_factory=tuple)
    first: tuple[str, ...] = ()
    files: bool = False


def words_of(name: str, command: Command, known: Mapping[str, Iterable[str]]) -> Words:
    """`known` has the words for each metavar, e.g. the recipes for RECIPE."""
    options: list[Option] = []
    first: list[str] = []
    files = False
    for action in command.actions:
        takes = None if action.nargs == 0 else str(action.metavar or action.dest.upper())
        words = tuple(map(str, action.choices or known.get(takes or "", ())))
        if action.option_strings:
            help_text = "" if action.help in (None, argparse.SUPPRESS) else str(action.help)
            options.append(Option(tuple(action.option_strings), help_text, takes, words))
        else:
            first += words
            files = files or takes in FILES
    return Words(name, command.description or "", options, tuple(first), files)


def bash(commands: Sequence[Words]) -> str:
    cases = []
    for command in commands:
        for option in command.options:
            if option.takes is not None:
                flags = "|".join(f"{command.name}' '{flag}" for flag in option.flags).replace("' '", "\\ ")
                cases.append(f"    {flags}) {_bash_reply(option.words, option.files)} ;;")
    for command in commands:
        every = [flag for option in command.options for flag in option.flags]
        cases.append(f"    {command.name}\\ *) {_bash_reply((*command.first, *every), command.files)} ;;")
    names = " ".join(command.name for command in commands)
    return f"""\
# bash completion of attn:   eval "$(attn completion bash)"
_attn() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W {shlex.quote(names)} -- "$word"))
    return
  fi
  case "${{COMP_WORDS[1]}} $before" in
{chr(10).join(cases)}
  esac
}}
complete -F _attn attn
"""


def _bash_reply(words: Sequence[str], files: bool) -> str:
    listed = f'COMPREPLY=($(compgen -W {shlex.quote(" ".join(words))} -- "$word"))' if words else ""
    named = 'COMPREPLY+=($(compgen -f -- "$word")); compopt -o filenames' if files else ""
    space = "compopt -o nospace" if words and all(word.endswith("=") for word in words) else ""
    return "; ".join(part for part in (listed, named, space) if part) or ":"


def zsh(commands: Sequence[Words]) -> str:
    described = " ".join(shlex.quote(f"{command.name}:{command.summary}") for command in commands)
    cases = []
    for command in commands:
        for option in command.options:
            if option.takes is not None:
                flags = "|".join(f"{command.name}\\ {flag}" for flag in option.flags)
                cases.append(f"    {flags}) {_zsh_reply(option.words, option.files)} ;;")
    for command in commands:
        every = [flag for option in command.options for flag in option.flags]
        cases.append(f"    {command.name}\\ *) {_zsh_reply((*command.first, *every), command.files)} ;;")
    return f"""\
#compdef attn
# zsh completion of attn:   eval "$(attn completion zsh)"   (after compinit)
_attn() {{
  if (( CURRENT == 2 )); then
    local -a commands=({described})
    _describe command commands
    return
  fi
  case "${{words[2]}} ${{words[CURRENT-1]}}" in
{chr(10).join(cases)}
  esac
}}
compdef _attn attn
"""


def _zsh_reply(words: Sequence[str], files: bool) -> str:
    listed = " ".join(shlex.quote(word) for word in words)
    space = " -S ''" if words and all(word.endswith("=") for word in words) else ""
    parts = ([f"compadd{space} -- {listed}"] if words else []) + (["_files"] if files else [])
    return "; ".join(parts) or ":"


def fish(commands: Sequence[Words]) -> str:
    lines = ["# fish completion of attn:   attn completion fish | source", "complete -c attn -f"]
    for command in commands:
        lines.append(f"complete -c attn -n __fish_use_subcommand -a {command.name} -d {_fish(command.summary)}")
    for command in commands:
        here = f"complete -c attn -n '__fish_seen_subcommand_from {command.name}'"
        if command.first:
            lines.append(f"{here} -a {_fish(' '.join(command.first))}")
        if command.files:
            lines.append(f"{here} -F")
        for option in command.options:
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
            value = "" if option.takes is None else " -r -F" if option.files else " -x"
            words = f" -a {_fish(' '.join(option.words))}" if option.words else ""
            lines.append(f"{here} {flags}{value}{words} -d {_fish(option.summary)}")
    return "\n".join(lines) + "\n"


def _fish(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
