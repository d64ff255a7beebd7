"""What fields, parameters and operations are, where the code does not say it: in the files beside."""

import json
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_SENTENCE = re.compile(r"(?P<first>.+?)[.;:](?:\s|$)", re.DOTALL)
_LONGEST_SUMMARY = 100
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")
_SPELT = {"msp": "MSP", "nas": "NAS", "nases": "NASes", "coa": "CoA", "totp": "TOTP", "scep": "SCEP", "msps": "MSPs"}
_STAYS = "stays as it is"


def tell_words(operation: dict[str, Any]) -> None:
    """Its description and summary, and what its parameters are."""
    name = operation.get("operationId", "")
    told = operation.setdefault("description", _operations().get(name, ""))
    operation["summary"] = _summary(name, told)
    words = _parameters()
    for parameter in operation.get("parameters", ()):
        own = words.get(name, {})
        if not parameter.get("description"):
            parameter["description"] = own.get(parameter["name"]) or words.get(parameter["name"], "")


def _summary(name: str, told: str) -> str:
    """Docstrings go on from the name: "By MAC address" says little without "List endpoints"."""
    spelt = _WORD_START.sub(" ", name).lower()
    for wrong, right in _SPELT.items():
        spelt = re.sub(rf"\b{wrong}\b", right, spelt)
    spelt = spelt[:1].upper() + spelt[1:]
    first = _SENTENCE.match(told)
    sentence = " ".join(first["first"].split()) if first else ""
    if name in _operations():
        return sentence or spelt
    if not sentence or len(sentence) > _LONGEST_SUMMARY:
        return spelt
    lower = sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() or sentence[1:2] == " " else sentence
    return f"{spelt}: {lower}"


def tell_fields(schemas: Mapping[str, Any]) -> None:
    for name, schema in schemas.items():
        changes = schema.get("additionalProperties") is False and name.endswith("Update")
        for told in schema.get("properties", {}).values():
            text = _with_absence(told.get("description", ""), told, changes=changes)
            told["description"] = text if name.startswith("Bulk") else _with_default(text, told)
            # Generators would send it as if it had been chosen, or require the field.
            told.pop("default", None)


def _with_absence(text: str, told: Mapping[str, Any], *, changes: bool) -> str:
    """What null means, and what becomes of what is left out of a change."""
    nullable = {"type": "null"} in told.get("anyOf", ())
    if not text or not nullable:
        return text
    if changes:
        return text if _STAYS in text else f"{text} Left out: {_STAYS}."
    return text if "null" in text else f"{text} null where there is none."


def _with_default(text: str, told: Mapping[str, Any]) -> str:
    default = told.get("default")
    return text if default in (None, "", [], {}) else f"{text} Default: {json.dumps(default)}."


@cache
def _parameters() -> Mapping[str, Any]:
    return _read("parameters.toml")


@cache
def _operations() -> Mapping[str, str]:
    return _read("operations.toml")


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((_HERE / name).read_text(encoding="utf-8"))
