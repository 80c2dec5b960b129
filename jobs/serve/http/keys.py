"""API keys: a file with one line per key, its SHA-256 and its owner. The key itself is shown once and kept nowhere."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from pathlib import Path

from jobs.errors import UserError, reason_of

LINE = re.compile(r"(?P<digest>[0-9a-f]{64})\s+(?P<owner>\S+)")
OWNER = re.compile(r"[\w.@+-]{1,64}")


def digest(key: str) -> str:
    """Keys are 256 random bits, so that a plain hash of one cannot be turned back."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


def load_keys(path: Path) -> dict[str, str]:
    """Owners by digest. Empty lines and lines that begin with # are skipped."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise UserError(f"The key file {path} cannot be read: {reason_of(error)}.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"The key file {path} is not UTF-8 text.") from error
    keys: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = LINE.fullmatch(line.strip())
        if match is None:
            raise UserError(f"{path}, line {number}: a line is the SHA-256 of a key and its owner's name.")
        keys[match["digest"]] = match["owner"]
    if not keys:
        raise UserError(f"The key file {path} has no key: `attn serve --keys {path} --new-key NAME` adds one.")
    return keys


def add_key(path: Path, owner: str) -> str:
    """A new key, its digest appended to the file, which only its owner can read."""
    if not OWNER.fullmatch(owner):
        raise UserError(f"A key's owner is one word of letters, digits and .@+-_, not {owner!r}.")
    key = secrets.token_urlsafe(32)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(f"{digest(key)} {owner}\n")
    except OSError as error:
        raise UserError(f"The key file {path} cannot be written: {reason_of(error)}.") from error
    return key
