"""Errors that the user can put right, as opposed to errors in the code. Standard library only."""

import difflib
from collections.abc import Iterable
from typing import NoReturn

from jobs.passwords import hidden


class UserError(Exception):
    """One or two sentences for the user: what is wrong, where, and what to do about it.

    The command line prints the sentence and exits with status 2. Survives pickling, so a worker may raise it.
    A password in an address is hidden.
    """

    def __init__(self, sentence: str = "") -> None:
        super().__init__(hidden(sentence))


def reason_of(error: BaseException) -> str:
    """Why something failed, as the end of a sentence: the system's own words ("no such file or directory")."""
    words: str | None = getattr(error, "strerror", None)
    return words.lower() if words else str(error)


def first_line(error: BaseException) -> str:
    """What it says, without the pages that some libraries add; may be empty."""
    return str(error).strip().partition("\n")[0]


def refuse_unknown(kind: str, name: str, known: Iterable[str], *, where: str = "", prefix: str = "") -> NoReturn:
    """Raise a UserError: there is no `kind` of this name, with the nearest known name and all known names.

    `where` opens the sentence, e.g. "profile.toml: "; `prefix` is put before both names, e.g. "training.".
    """
    names = list(known)
    opening = f"{where}there is" if where else "There is"
    hint = f" Did you mean {prefix}{near}?" if (near := nearest_name(name, names)) else ""
    raise UserError(f"{opening} no {kind} {prefix + name!r}.{hint} There are: {', '.join(names)}.")


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, whatever its case, or None where none is at all like it."""
    spelled = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.strip().lower(), spelled, n=1, cutoff=0.4)
    return spelled[near[0]] if near else None
