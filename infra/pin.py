"""Write infra/constraints.txt: the exact version of everything that attn runs and is tested with, on every Python.

`make setup` and the images install just these. `make pin` makes a new environment with the newest versions that
pyproject.toml admits and runs this file in it; commit the result after a green `make test` (CONTRIBUTING.md).
"""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HEADER = "# Made by `make pin`. What the tests ran with is what is installed. torch without its variant."
TRACKING_SERVER = {"psycopg2-binary": "2.9.13"}  # what only the image of the tracking server needs
CUDA = ("nvidia-", "cuda-", "triton")  # come with the CUDA build of torch, which names them itself
PLACE = Path(__file__).with_name("constraints.txt")


def pins(root: str, extras: frozenset[str]) -> dict[str, str]:
    """Name and version of every installed distribution that `root` needs with these extras, directly or not."""
    found: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(root, extras)]
    while waiting:
        name, wanted_extras = waiting.pop()
        if (name, wanted_extras) in seen or name.startswith(CUDA):
            continue
        seen.add((name, wanted_extras))
        installed = distribution(name)
        found[name] = installed.version.partition("+")[0]
        for text in installed.requires or []:
            wanted = Requirement(text)
            if wanted.marker is None or any(wanted.marker.evaluate({"extra": e}) for e in wanted_extras | {""}):
                waiting.append((canonicalize_name(wanted.name), frozenset(wanted.extras)))
    del found[root]
    return found


def read_constraints() -> dict[str, str]:
    lines = PLACE.read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def main() -> None:
    versions = pins("attn", frozenset({"dev"})) | TRACKING_SERVER
    lines = [f"{name}=={version}" for name, version in sorted(versions.items())]
    PLACE.write_text("\n".join([HEADER, *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
