"""The fields of a request, however they were sent (JSON, form, query), each checked or refused with a sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from email.message import Message
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from jobs.serve.http.admission import Refused, read_body

MOST_FIELDS = 1_000


async def read_fields(request: Request, most_bytes: int) -> dict[str, Any]:
    """Query parameters, overridden by what the body holds. A form's field that is given twice becomes a list."""
    body = await read_body(request.headers, request.receive, most_bytes)
    fields = _several(list(request.query_params.multi_items()))
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not body.strip():
        return fields
    if kind == "application/x-www-form-urlencoded":
        if body.lstrip()[:1] == b"{":  # curl -d sends JSON under this name
            return fields | parse_json(body)
        return fields | parse_form(body)
    if kind == "multipart/form-data":
        return fields | parse_multipart(body, request.headers["content-type"])
    return fields | parse_json(body)


def parse_json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except RecursionError:
        raise Refused(400, "The JSON of this request is nested too deeply.") from None
    except ValueError as error:
        raise Refused(400, f"The body of this request is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise Refused(400, "The body of this request must be a JSON object.")
    return found


def parse_form(body: bytes) -> dict[str, Any]:
    try:
        text = body.decode("ascii", "strict")
        return _several(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise Refused(400, "The form of this request cannot be read.") from None


def parse_multipart(body: bytes, content_type: str) -> dict[str, Any]:
    head = b"Content-Type: " + content_type.encode("latin-1", "replace") + b"\r\n\r\n"
    message: Message = BytesParser(policy=HTTP).parsebytes(head + body)
    found = []
    for part in message.get_payload() if message.is_multipart() else []:
        name = part.get_param("name", header="content-disposition") if isinstance(part, Message) else None
        if isinstance(part, Message) and isinstance(name, str):
            content = part.get_payload(decode=True)
            found.append((name, content.decode("utf-8", "replace") if isinstance(content, bytes) else ""))
    return _several(found[:MOST_FIELDS])


def _several(items: list[tuple[str, str]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in items:
        if name in fields:
            fields[name] = [*(fields[name] if isinstance(fields[name], list) else [fields[name]]), value]
        else:
            fields[name] = value
    return fields


def text_field(fields: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = fields.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise Refused(400, f"{name} must be a text." if name in fields else f"{name} is missing.")
    return value


def texts_field(fields: Mapping[str, Any], name: str) -> tuple[list[str], bool]:
    """One text or a list of them, and whether it was a list."""
    value = fields.get(name)
    if isinstance(value, list):
        if not all(isinstance(each, str) for each in value):
            raise Refused(400, f"{name} must be a text or a list of texts.")
        return value, True
    return [text_field(fields, name)], False


def number_field(fields: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    value = fields.get(name, default)
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)) > 40:
            raise ValueError
        number = float(value)
    except (ValueError, OverflowError):
        raise Refused(400, f"{name} must be a number.") from None
    if not least <= number <= most:
        raise Refused(400, f"{name} must be from {least:g} to {most:g}.")
    return number


def whole_field(fields: Mapping[str, Any], name: str, default: int, least: int, most: int) -> int:
    number = number_field(fields, name, default, least, most)
    if number != int(number):
        raise Refused(400, f"{name} must be a whole number.")
    return int(number)


def flag_field(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false", "1", "0", ""):
        return value.lower() in ("true", "1")
    raise Refused(400, f"{name} must be true or false.")


def choice_field(fields: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str:
    value = text_field(fields, name, choices[0])
    if value not in choices:
        raise Refused(400, f"{name} must be one of {', '.join(choices)}.")
    return value
