"""Passwords in addresses: hidden wherever text is shown or kept, and taken out of an address before it is used.

Libraries print the addresses they are given, so an address that reaches one of them has no password in it any more:
that goes where the library looks for it, the environment. Standard library only.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

HIDDEN = "***"
USER_AND_PASSWORD = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*://)(?P<user>[^\s:/@]*):(?P<password>[^\s@]+)@")
IN_QUERY = re.compile(
    r"([?&][\w.-]*(?:secret|password|token|access_key|credential|sas|sig(?:nature)?)[\w.-]*=)[^&\s'\"]+", re.IGNORECASE
)
VARIABLES = {  # where each kind of library looks for a name and a password
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    "http": ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"),
    "https": ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"),
}


def hidden(text: str) -> str:
    """The text without the passwords of the addresses in it."""
    return IN_QUERY.sub(rf"\1{HIDDEN}", USER_AND_PASSWORD.sub(rf"\g<scheme>{HIDDEN}@", text))


def has_password(address: str) -> bool:
    return hidden(address) != address


def take_password(address: str) -> str:
    """The address without user and password, which are in the environment from here on; of a kind of address that has
    no such variables, the address as it is."""
    found = USER_AND_PASSWORD.match(address)
    variables = VARIABLES.get(address.partition("://")[0])
    if found is None or variables is None:
        return address
    os.environ.update(dict(zip(variables, (unquote(found["user"]), unquote(found["password"])), strict=True)))
    return found["scheme"] + address[found.end() :]
