"""Get a corpus: sentences of the demo language, the user's files, archives from the internet, or a known test set.

Writes  corpora/<id>/pairs/part-00000.parquet ...   `source`, `target` and, of a test set in named parts, `part`
        corpora/<id>/about.json                     languages and counts: read, kept, dropped by reason, per corpus
        corpora/<id>/dropped.json                   a sample of what was dropped, by reason

Each pair of texts is read by one Ray task, as a stream: aligned_lines.py holds line N to line N, archives.py reads
members of archives, download.py fetches them. Only what cannot be read goes: the rest is jobs/shards/cleaning.py.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import IO, Any, cast

import ray
import sacrebleu
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from jobs.configs import ArchivesCorpus, CorpusConfig, DemoCorpus, FilesCorpus, Resources, SacrebleuSet
from jobs.corpora.aligned_lines import Tally, align, lines_of
from jobs.corpora.archives import Member, Place, open_pair
from jobs.corpora.demo import language as demo_language
from jobs.corpora.download import fetch_archives
from jobs.corpora.pair_files import write_parts
from jobs.errors import UserError
from jobs.events import Facts, Log, Note, Progress
from jobs.storage import object_store
from jobs.storage.artifacts import Artifact

DEMO_PAIRS_PER_TASK = 20_000
Said = dict[str, Any]  # {"pairs": n} while a task works, {"tally": ...} at its end
Task = Callable[[], Iterator[Said]]


def run(config: CorpusConfig, *, out: Artifact, on: Resources, log: Log) -> Facts:
    """Write the pairs of a corpus. Facts: pairs, read, dropped, corpora, seconds."""
    started = time.monotonic()
    tasks: list[Task]
    total: int | None
    if isinstance(config, DemoCorpus):
        tasks, total = demo_tasks(config, out), config.pairs
    elif isinstance(config, FilesCorpus):
        tasks, total = [partial(read_files, config.source, config.target, out)], None
    elif isinstance(config, SacrebleuSet):
        tasks, total = [partial(read_test_set, config, out)], config.lines
    else:
        tasks, total = archive_tasks(config, out, on, log)
    local = isinstance(config, FilesCorpus) or (isinstance(config, ArchivesCorpus) and bool(config.from_directory))
    tallies = work(tasks, total, on, log, here=local)
    return describe(config, tallies, out, log) | {"seconds": round(time.monotonic() - started, 2)}


# --- one task per pair of texts --------------------------------------------------------------------------------------


def work(tasks: Sequence[Task], total: int | None, on: Resources, log: Log, *, here: bool) -> list[Said]:
    """Run the tasks on the cluster, as many at once as the profile says; their tallies, in the order of the tasks.

    A task says how far it is as it goes, so that a corpus of forty million pairs is no silence of an hour. `here`: on
    this node if it has CPUs, because what they read may be on its disk alone.
    """
    node = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    remote: Any = ray.remote(_run_task).options(
        num_cpus=on.data.cpus_per_task, num_returns="streaming", scheduling_strategy=node if here else "DEFAULT"
    )
    waiting = list(enumerate(tasks))[::-1]
    running: dict[Any, int] = {}
    tallies: dict[int, Said] = {}
    done = 0
    try:
        while waiting or running:
            while waiting and len(running) < on.data.tasks:
                position, task = waiting.pop()
                running[remote.remote(task)] = position
            stream: Any = ray.wait(list(running), num_returns=1)[0][0]
            said: Any = next((ray.get(each) for each in islice(stream, 1)), None)
            if said is None:
                del running[stream]
            elif "pairs" in said:
                done += said["pairs"]
                log(Progress(done, total, "pairs"))
            else:
                tallies[running[stream]] = said["tally"]
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, UserError) else error) from None
    finally:
        for stream in running:
            ray.cancel(stream)
    return [tallies[position] for position in sorted(tallies)]


def _run_task(task: Task) -> Iterator[Said]:
    yield from task()


def write(
    tally: Tally, pairs: Iterator[Sequence[str]], out: Artifact, *, corpus: int = 0, columns: int = 2
) -> Iterator[Said]:
    for count in write_parts(pairs, out, corpus=corpus, columns=columns):
        yield {"pairs": count}
    yield {"tally": vars(tally)}


# --- the demo language -----------------------------------------------------------------------------------------------


def demo_tasks(config: DemoCorpus, out: Artifact) -> list[Task]:
    starts = range(0, config.pairs, DEMO_PAIRS_PER_TASK)
    stops = [*starts[1:], config.pairs]
    return [
        partial(speak, config, *span, out, position) for position, span in enumerate(zip(starts, stops, strict=True))
    ]


def speak(config: DemoCorpus, start: int, stop: int, out: Artifact, position: int) -> Iterator[Said]:
    tally = Tally("demo language", read=stop - start, kept=stop - start)
    pairs = demo_language.pairs(config.seed, config.split, start, stop)
    columns = 3 if config.split == "test" else 2
    rows = (pair[:columns] for pair in pairs)
    return write(tally, rows, out, corpus=position, columns=columns)


# --- the user's files ------------------------------------------------------------------------------------------------


def open_file(address: str) -> IO[bytes]:
    """A file of the user's, by its path or by an object store's address."""
    try:
        if "://" in address:
            system, path = object_store.resolve(address)
            return cast(IO[bytes], system.open_input_stream(path))
        return open(os.path.expanduser(address), "rb")
    except FileNotFoundError:
        raise UserError(f"There is no file {address}.") from None
    except IsADirectoryError:
        raise UserError(f"{address} is a directory, not a file of sentences.") from None
    except OSError as error:
        raise UserError(f"{address} cannot be read: {error.strerror or error}.") from error


def read_files(source: str, target: str, out: Artifact) -> Iterator[Said]:
    tally = Tally(os.path.basename(source), sides=(source, target))
    with ExitStack() as opened:
        texts = [lines_of(opened.enter_context(open_file(address)), address) for address in (source, target)]
        yield from write(tally, align(texts[0], texts[1], tally), out)


# --- archives --------------------------------------------------------------------------------------------------------


def archive_tasks(config: ArchivesCorpus, out: Artifact, on: Resources, log: Log) -> tuple[list[Task], int | None]:
    places = fetch_archives(config.archives, out, config.from_directory, at_once=on.data.downloads, log=log)
    languages = config.source_language, config.target_language
    tasks: list[Task] = []
    for position, (archive, place) in enumerate(zip(config.archives, places, strict=True)):
        members = Member(archive.source_member, languages[0]), Member(archive.target_member, languages[1])
        tasks.append(partial(read_archive, archive.name, place, members, archive.lines, out, position))
    counts = [archive.lines for archive in config.archives]
    return tasks, None if None in counts else sum(cast(list[int], counts))


def read_archive(
    name: str, place: Place, members: tuple[Member, Member], expected: int | None, out: Artifact, position: int
) -> Iterator[Said]:
    tally = Tally(name, sides=(f"{name}: {members[0].path}", f"{name}: {members[1].path}"))
    with open_pair(place, members) as (sources, targets):
        yield from write(tally, align(sources, targets, tally), out, corpus=position)
    if expected is not None and tally.read != expected:
        raise UserError(
            f"{name} has {tally.read:,} lines in {members[0].path}, and {expected:,} were expected. "
            "Is it another release? pipelines/recipes/language_pairs.py says what each archive should hold."
        )


# --- test sets that sacreBLEU knows ----------------------------------------------------------------------------------


def read_test_set(config: SacrebleuSet, out: Artifact) -> Iterator[Said]:
    """Through sacreBLEU, so that the test set is the one that everybody scores on."""
    pair = f"{config.source_language}-{config.target_language}"
    try:
        source = sacrebleu.get_source_file(config.name, pair)
        targets = sacrebleu.get_reference_files(config.name, pair)
    except SystemExit as error:  # sacreBLEU's way to say that a checksum is wrong
        raise UserError(f"sacreBLEU could not get {config.name} ({pair}) whole; its log says which file.") from error
    except Exception as error:
        raise UserError(f"sacreBLEU could not get {config.name} ({pair}): {error}") from error
    tally = Tally(config.name, sides=(source, targets[0]))
    with open(source, "rb") as sources, open(targets[0], "rb") as references:
        yield from write(tally, align(lines_of(sources, source), lines_of(references, targets[0]), tally), out)
    if tally.kept != config.lines:
        raise UserError(
            f"{config.name} ({pair}) has {tally.kept:,} lines, and {config.lines:,} were expected: "
            f"a score on it would compare with nothing. Remove {os.path.dirname(source)} and run again."
        )


# --- what it was -----------------------------------------------------------------------------------------------------


def describe(config: CorpusConfig, tallies: Sequence[Said], out: Artifact, log: Log) -> dict[str, int | float | str]:
    dropped: Counter[str] = Counter()
    samples: dict[str, list[Said]] = {}
    for tally in tallies:
        dropped.update(tally["dropped"])
        for reason, kept in tally["samples"].items():
            samples.setdefault(reason, []).extend(kept)
    pairs, read = sum(tally["kept"] for tally in tallies), sum(tally["read"] for tally in tallies)
    if not pairs:
        why = f" All {read:,} were dropped: {in_words(dropped)}." if read else ""
        raise UserError(f"The corpus is empty: {' and '.join(tallies[0]['sides'])} hold no pair of sentences.{why}")
    corpora: dict[str, Said] = {}
    for tally in tallies:
        corpus = corpora.setdefault(tally["name"], {"name": tally["name"], "read": 0, "kept": 0, "repaired": 0})
        for key in ("read", "kept", "repaired"):
            corpus[key] += tally[key]
    about = {
        "source_language": config.source_language,
        "target_language": config.target_language,
        "pairs": pairs,
        "read": read,
        "dropped": dict(dropped.most_common()),
        "repaired": sum(tally["repaired"] for tally in tallies),
        "corpora": list(corpora.values()),
    }
    out.write_json("dropped.json", samples)
    out.write_json("about.json", about)
    if dropped:
        log(Note(f"{read - pairs:,} of {read:,} pairs could not be read: {in_words(dropped)}"))
    return {"pairs": pairs, "read": read, "dropped": read - pairs, "corpora": len(corpora)}


def in_words(dropped: Counter[str]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in dropped.most_common())
