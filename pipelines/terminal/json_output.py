"""`--json`: one JSON value on standard output."""

from __future__ import annotations

import json
from typing import Any


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False))
