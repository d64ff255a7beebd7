"""Generates the JSON Schema (draft 2020-12) of events.

Usage: `python -m nac.logs.events.schema > docs/reference/events.schema.json`
"""

import json
import sys
from typing import Any, cast

import msgspec

from nac.logs.events.document import VERSION, Event

Schema = dict[str, Any]
_NULL = {"type": "null"}


def event_schema() -> Schema:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Admit event, version {VERSION}",
        "description": "See docs/reference/events.md. Fields and kinds may be added within a version.",
        **cast(Schema, _without_null(msgspec.json.schema(Event))),
    }


def _without_null(part: object) -> object:
    """Remove null from the types, because events omit unknown values."""
    if isinstance(part, list):
        return [_without_null(each) for each in part]
    if not isinstance(part, dict):
        return part
    kept: Schema = {name: _without_null(value) for name, value in part.items() if (name, value) != ("default", None)}
    options = [option for option in kept.get("anyOf", ()) if option != _NULL]
    if len(options) == 1:
        del kept["anyOf"]
        return kept | options[0]
    return kept


if __name__ == "__main__":
    sys.stdout.write(json.dumps(event_schema(), indent=2) + "\n")
