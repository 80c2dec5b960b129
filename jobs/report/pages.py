"""Pages from templates: everything inlined, all text escaped, and nothing but our own scripts allowed to run.

A page makes no request: its content security policy forbids every source but itself, and names its scripts by hash,
so that a sentence of a corpus cannot become one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

HERE = Path(__file__).parent / "templates"
STYLE = ("page.css", "attention.css")
SCRIPTS = ("page.js", "charts.js", "attention.js")


def render(template: str, **values: Any) -> str:
    """A page from a template of `templates`. Values are text and are escaped, except Markup that we made."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"json": embedded_json, "breakable": breakable}
    style = "\n".join((HERE / name).read_text(encoding="utf-8") for name in STYLE)
    script = "\n" + "\n".join((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)
    page = environment.get_template(template).render(
        style=Markup(style), script=Markup(script), policy=policy(script), **values
    )
    return page + "\n"


def policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"


def embedded_json(value: Any) -> Markup:
    """JSON that may stand inside a script element: no text in it can end the element, and no number is NaN."""
    text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(text)


def breakable(text: str) -> Markup:
    """Long signatures may go on in the next line after a bar; what is copied from the page stays the same."""
    return Markup("|<wbr>").join(text.split("|"))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
