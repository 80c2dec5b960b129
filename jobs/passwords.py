"""Passwords in addresses: hidden wherever text is shown or kept, and taken out of an address before it is used.

Libraries print the addresses they are given, so an address that reaches one of them has no password in it any more:
that goes where the library looks for it, the environment. Standard library only.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

HIDDEN = "***"
# A password may have `@`, `/` or `:` in it, so all up to the last `@` before a blank is hidden: too much at worst.
USER_AND_PASSWORD = re.compile(r"(?<=://)[^\s:/]*:\S+@")
TOKEN = re.compile(r"(?<=http://|ttps://)[^\s:/@]+@")
IN_QUERY = re.compile(
    r"([?&][\w.-]*(?:secret|password|token|access_key|credential|sas|sig(?:nature)?)[\w.-]*=)[^&\s'\"]+", re.IGNORECASE
)
# Of an address that is used: what stands before the host, or, where a `/` is in the password, up to the first `@`.
OF_ADDRESS = re.compile(
    r"(?P<scheme>[A-Za-z][\w+.-]*://)(?P<user>[^:/]*):(?:(?P<password>[^/?#]+)@|(?!\d+/)(?P<slashed>[^@]+)@)",
    re.DOTALL,
)
VARIABLES = {  # where each kind of library looks for a name and a password
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    "http": ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"),
    "https": ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"),
}
TELLING = 8  # characters: a shorter password is a part of too many words
_taken: set[str] = set()


def hidden(text: str) -> str:
    """The text without the passwords of the addresses in it, and without those that were taken out of one."""
    for password in _taken:
        text = text.replace(password, HIDDEN)
    without = TOKEN.sub(f"{HIDDEN}@", USER_AND_PASSWORD.sub(f"{HIDDEN}@", text))
    return IN_QUERY.sub(rf"\1{HIDDEN}", without)


def has_password(address: str) -> bool:
    return hidden(address) != address


def take_password(address: str) -> str:
    """The address without user and password, which are in the environment from here on; of a kind of address that has
    no such variables, the address as it is."""
    found = OF_ADDRESS.match(address)
    if found is None:
        return address
    password = found["password"] or found["slashed"]
    _taken.update(word for word in (password, unquote(password)) if len(word) >= TELLING)
    variables = VARIABLES.get(address.partition("://")[0])
    if variables is None:
        return address
    os.environ.update(dict(zip(variables, (unquote(found["user"]), unquote(password)), strict=True)))
    return found["scheme"] + address[found.end() :]
