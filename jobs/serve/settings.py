"""What a service is: which models, where it listens, what it lets in. Standard library only.

None of this is part of a result's name. The settings travel to Ray's workers as they are.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from jobs import language_names
from jobs.configs import ServeResources
from transformer.config import require

Engine = Literal["torch", "ctranslate2", "ctranslate2-int8"]
LANGUAGES = re.compile(r"(?P<source>[a-z]{2,3})-(?P<target>[a-z]{2,3})")
NAMED = re.compile(r"(?P<name>[\w.-]{1,40})(?::(?P<languages>[a-z]{2,3}-[a-z]{2,3}))?=(?P<model>.+)")  # a:en-fr=DIR
TREES = "trees"  # what a parser translates to
LANGUAGE_NAMES = language_names.LANGUAGE_NAMES | {TREES: "tree"}


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """A model directory, what it is called here, and what it translates."""

    name: str
    directory: str
    source: str = "en"
    target: str = "de"
    engine: Engine = "torch"

    @property
    def parses(self) -> bool:
        return self.target == TREES


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request, one key and the whole service may ask for. None: no limit."""

    characters: int = 10_000  # of one request's text
    body_bytes: int = 1_000_000
    texts: int = 256  # in one request
    requests_per_minute: int | None = None  # of each key, or of everybody without keys
    concurrent: int = 512  # requests in the service at once; more get 503 and Retry-After
    timeout_s: float = 60.0  # until a request is answered with 504
    alternatives: int = 16

    def __post_init__(self) -> None:
        for name in ("characters", "body_bytes", "texts", "concurrent", "timeout_s", "alternatives"):
            require(getattr(self, name) > 0, f"{name} must be above 0, not {getattr(self, name)}")
        require(
            self.requests_per_minute is None or self.requests_per_minute > 0,
            f"requests_per_minute must be above 0, not {self.requests_per_minute}",
        )


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """A service. `keys` maps the SHA-256 of each API key to its owner's name; None lets everybody in."""

    models: tuple[ServedModel, ...]
    host: str = "127.0.0.1"
    port: int = 8000
    keys: Mapping[str, str] | None = None
    cors: tuple[str, ...] = ()  # origins whose pages may call us
    log_text: bool = False
    limits: Limits = field(default_factory=Limits)
    on: ServeResources = field(default_factory=ServeResources)

    def __post_init__(self) -> None:
        names = [model.name for model in self.models]
        require(bool(names), "a service needs at least one model")
        require(len(set(names)) == len(names), f"every model needs a name of its own, and these are {names}")
        require(
            self.keys is not None or is_loopback(self.host),
            f"{self.host} can be reached from other machines, and without keys everybody there may use the service. "
            f"Make a key file first: `attn serve --keys FILE --new-key NAME`, then give --keys FILE",
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
