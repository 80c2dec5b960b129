"""What a run reports of its steps: one event at a time, as a line of text or as a line of JSON.

A run with `--events json`, which is how a submitted job runs, prints an event per line; `attn submit --follow` and
`attn logs` read them back. A line that is no event is a line of text.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import Any

from jobs.events import Progress

OPENING = '{"attn_step": '  # every event's line begins so, and no other line does


@dataclass(frozen=True, kw_only=True)
class StepEvent:
    """Something happened to a step. `state`: found, running, waiting, done, failed or skipped."""

    key: str  # of the step: stage and fingerprint
    name: str
    time: float  # seconds since 1970
    state: str
    text: str = ""  # the event in words, for a line of a log
    note: str = ""  # a few words to stand beside the step until the next event
    progress: Progress | None = None
    silent: float = 0.0  # seconds since the step last reported, where that is long ago


def json_line(event: StepEvent) -> str:
    fields = asdict(event)
    return json.dumps({"attn_step": fields.pop("key"), **{name: value for name, value in fields.items() if value}})


def text_line(event: StepEvent) -> str:
    return f"{time.strftime('%H:%M:%S', time.localtime(event.time))}  {event.name:<18} {event.text}"


def parse_line(line: str) -> StepEvent | None:
    """The event that a line holds; None if the line is text."""
    if not line.startswith(OPENING):
        return None
    try:
        fields: dict[str, Any] = json.loads(line)
        if "progress" in fields:
            fields["progress"] = Progress(**fields["progress"])
        return StepEvent(key=fields.pop("attn_step"), **fields)
    except (ValueError, TypeError):  # cut short, or of another version
        return None


def readable(line: str) -> str:
    """A line of a log for people: an event in words, any other line as it is."""
    event = parse_line(line)
    return line if event is None else text_line(event)
