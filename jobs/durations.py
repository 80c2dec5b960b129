"""Seconds as text, for the terminal and for the report. Standard library only."""

MINUTE, HOUR, DAY = 60, 3600, 86_400


def duration(seconds: float | None) -> str:
    """0.15 s, 3.2 s, 42 s, 1:15 min, 11:40 h, 3.5 days; a dash for None."""
    if seconds is None:
        return "–"
    if seconds < 10:
        return f"{seconds:.2g} s" if seconds < 1 else f"{seconds:.1f} s"
    if seconds < MINUTE:
        return f"{int(seconds)} s"
    if seconds < HOUR:
        return f"{int(seconds) // MINUTE}:{int(seconds) % MINUTE:02d} min"
    if seconds < 2 * DAY:
        return f"{int(seconds) // HOUR}:{int(seconds) % HOUR // MINUTE:02d} h"
    return f"{seconds / DAY:.1f} days"
