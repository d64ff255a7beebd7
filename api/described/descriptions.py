"""Summaries of operations, and the meaning of null and defaults in the descriptions of fields."""

import json
import re
from collections.abc import Mapping
from typing import Any

_SENTENCE = re.compile(r"(?P<first>.+?)[.](?:\s|$)", re.DOTALL)
_MAX_SUMMARY_LENGTH = 100
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")
_SPELLINGS = {
    "msp": "MSP",
    "nas": "NAS",
    "nases": "NASes",
    "coa": "CoA",
    "totp": "TOTP",
    "scep": "SCEP",
    "msps": "MSPs",
}
_UNCHANGED_SENTENCE = "Unchanged if omitted."


def add_summary(operation: dict[str, Any]) -> None:
    operation["summary"] = _build_summary(operation["operationId"], operation.get("description", ""))


def _build_summary(name: str, description: str) -> str:
    """Return the first sentence of the description, or the words of the operation id if the sentence is too long."""
    first = _SENTENCE.match(description)
    sentence = " ".join(first["first"].split()) if first else ""
    if sentence and len(sentence) <= _MAX_SUMMARY_LENGTH:
        return sentence
    spelt = _WORD_START.sub(" ", name).lower()
    for wrong, right in _SPELLINGS.items():
        spelt = re.sub(rf"\b{wrong}\b", right, spelt)
    return spelt[:1].upper() + spelt[1:]


def add_field_descriptions(schemas: Mapping[str, Any]) -> None:
    for name, schema in schemas.items():
        changes = schema.get("additionalProperties") is False and name.endswith("Update")
        for field in schema.get("properties", {}).values():
            text = _append_null_meaning(field.get("description", ""), field, changes=changes)
            field["description"] = text if name.startswith("Bulk") else _append_default(text, field)
            # Generators would always send a default, or require the field.
            field.pop("default", None)


def _append_null_meaning(text: str, field: Mapping[str, Any], *, changes: bool) -> str:
    """Append the meaning of null, and of an omitted field in a change."""
    nullable = {"type": "null"} in field.get("anyOf", ())
    if not text or not nullable:
        return text
    if changes:
        return text if _UNCHANGED_SENTENCE in text else f"{text} {_UNCHANGED_SENTENCE}"
    return text if "null" in text else f"{text} null if none."


def _append_default(text: str, field: Mapping[str, Any]) -> str:
    default = field.get("default")
    return text if default in (None, "", [], {}) else f"{text} Default: {json.dumps(default)}."
