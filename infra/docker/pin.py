"""Write constraints.txt: the version of everything that this environment runs attn with, for the images.

Run by hand after a change of the dependencies and a green `make test`:   .venv/bin/python infra/docker/pin.py
"""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HEADER = "# Every version inside the images: what the tests ran with (infra/docker/pin.py). torch without its variant."
TRACKING = {"boto3": "1.44.0", "psycopg2-binary": "2.9.13"}  # what only the tracking server needs


def pins(root: str) -> dict[str, str]:
    """Name and version of every distribution that `root` needs, directly or not."""
    found: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting: list[tuple[str, frozenset[str]]] = [(root, frozenset())]
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        installed = distribution(name)
        found[name] = installed.version.partition("+")[0]
        for text in installed.requires or []:
            wanted = Requirement(text)
            if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in extras | {""}):
                waiting.append((canonicalize_name(wanted.name), frozenset(wanted.extras)))
    del found[root]
    return found


def main() -> None:
    lines = [f"{name}=={version}" for name, version in sorted((pins("attn") | TRACKING).items())]
    Path(__file__).with_name("constraints.txt").write_text("\n".join([HEADER, *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
