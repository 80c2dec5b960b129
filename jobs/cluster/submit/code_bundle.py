"""What is sent to a cluster with a recipe: our code, the profiles, the files that its arguments name. Standard library.

Collected file by file, so that no data, no history and no environment is sent by accident.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import jobs
from jobs.errors import UserError

PACKAGES = ("transformer", "jobs", "pipelines", "infra")
LARGEST_BUNDLE = 20 * 2**20  # bytes; the code is about one megabyte, anything near this is a mistake
CARRIED = "carried"  # directory of the user's own files in the bundle


def fill_bundle(directory: Path, carried: Sequence[str] = ()) -> int:
    """Copy what the cluster needs of this project into `directory`; returns its size in bytes."""
    root = Path(jobs.__file__).parent.parent
    for package in PACKAGES:
        for file in _files(root / package):
            place = directory / file.relative_to(root)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
    names = [Path(path).name for path in carried]
    if len(set(names)) < len(names):
        raise UserError(f"Two of the files to be sent have the same name: {', '.join(carried)}. Rename one.")
    for path in carried:
        (directory / CARRIED).mkdir(exist_ok=True)
        shutil.copyfile(path, directory / CARRIED / Path(path).name)
    sizes = {file: file.stat().st_size for file in directory.rglob("*") if file.is_file()}
    total = sum(sizes.values())
    if total > LARGEST_BUNDLE:
        largest = max(sizes, key=lambda file: sizes[file])
        raise UserError(
            f"{total / 2**20:.0f} MB would be sent to the cluster, {LARGEST_BUNDLE / 2**20:.0f} MB is the most; the "
            f"largest file is {largest.relative_to(directory)} ({sizes[largest] / 2**20:.0f} MB). Data belongs in the "
            f"workspace, not beside the code."
        )
    return total


def _files(package: Path) -> Iterator[Path]:
    """Code and what it reads. Of infra only the profiles: nothing else of it is used on a cluster."""
    for file in sorted(package.rglob("*")):
        inside = file.relative_to(package)
        if not file.is_file() or "__pycache__" in inside.parts or any(part.startswith(".") for part in inside.parts):
            continue
        if package.name != "infra" or inside.suffix == ".toml" or inside == Path("__init__.py"):
            yield file
