"""A corpus put together from archives that are downloaded once per workspace."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from jobs.configs import ArchivesCorpus, FilesCorpus, Resources
from jobs.corpora.aligned_lines import Tally, align, require_readable
from jobs.corpora.archives import Member, Place, open_pair
from jobs.corpora.download import fetch_archives
from jobs.corpora.download_nodes import download_on_cluster
from jobs.corpora.reading import Reading, Task, TaskReport, write
from jobs.errors import UserError
from jobs.events import Log
from jobs.storage.artifacts import Artifact


def read(config: ArchivesCorpus, out: Artifact, on: Resources, log: Log) -> Reading:
    run = partial(download_on_cluster, at_once=on.data.downloads)
    places = fetch_archives(config.archives, out, config.from_directory, run=run, log=log)
    languages = config.source_language, config.target_language
    tasks: list[Task] = []
    for position, (archive, place) in enumerate(zip(config.archives, places, strict=True)):
        members = Member(archive.source_member, languages[0]), Member(archive.target_member, languages[1])
        tasks.append(partial(read_archive, archive.name, place, members, archive.lines, out, position))
    return Reading(tasks, config.known_pairs(), here=bool(config.from_directory))


def read_archive(
    name: str, place: Place, members: tuple[Member, Member], expected: int | None, out: Artifact, position: int
) -> Iterator[TaskReport]:
    tally = Tally(name, sides=(f"{name}: {members[0].path}", f"{name}: {members[1].path}"))
    with open_pair(place, members) as (sources, targets):
        yield from write(tally, align(sources, targets, tally), out, corpus=position)
    require_readable(tally, FilesCorpus.max_unreadable)
    if expected is not None and tally.read != expected:
        raise UserError(
            f"{name} has {tally.read:,} lines in {members[0].path}, and {expected:,} were expected. "
            "Is it another release? pipelines/recipes/language_pairs.py says what each archive should hold."
        )
