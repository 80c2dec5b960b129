"""What the API's bodies look like, for its OpenAPI description."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

KEY: Schema = {"type": "string", "description": "your API key, where the service needs one"}
TRANSLATE: Schema = {
    "type": "object",
    "required": ["q", "source", "target"],
    "properties": {
        "q": {
            "oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
            "example": "The cat sleeps.",
        },
        "source": {"type": "string", "description": "a language's code, or auto", "example": "en"},
        "target": {"type": "string", "example": "de"},
        "format": {"type": "string", "enum": ["text", "html"], "default": "text"},
        "alternatives": {"type": "integer", "default": 0, "description": "how many more translations to give"},
        "api_key": KEY,
    },
}
DETECT: Schema = {
    "type": "object",
    "required": ["q"],
    "properties": {"q": {"type": "string", "example": "Die Katze schläft."}, "api_key": KEY},
}
V1_TRANSLATE: Schema = {
    "type": "object",
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "example": "The cat sleeps."},
        "model": {"type": "string", "description": "its name, as /v1/models gives it; default: the first"},
        "format": {"type": "string", "enum": ["text", "html"], "default": "text"},
        "n_best": {"type": "integer", "default": 1, "minimum": 1},
        "beam": {"type": "integer", "default": 4, "minimum": 1, "description": "of a parser: 21"},
        "alpha": {
            "type": "number",
            "default": 0.6,
            "description": "length penalty ((5 + length) / 6) ^ alpha; of a parser: 0.3",
        },
        "attention": {"type": "boolean", "default": False, "description": "with the attention of each sentence"},
        "search": {"type": "boolean", "default": False, "description": "with every step of the beam search"},
        "picture": {"type": "boolean", "default": False, "description": "of a parser: each tree as SVG"},
        "stream": {"type": "boolean", "default": False, "description": "as text/event-stream, words as they come"},
        "api_key": KEY,
    },
}
V1_ATTENTION: Schema = {
    "type": "object",
    "required": ["source"],
    "properties": {
        "source": {"type": "string", "description": "one sentence", "example": "The cat sleeps."},
        "target": {"type": "string", "description": "a translation of it; default: the model's own"},
        "model": {"type": "string"},
        "api_key": KEY,
    },
}


def described(schema: Schema) -> Schema:
    """A body of this shape, as JSON or as a form."""
    kinds = ("application/json", "application/x-www-form-urlencoded")
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}
