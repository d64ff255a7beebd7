"""Examples of bodies and successful responses, from the examples of models and fields.

examples.toml has the common examples of fields by their names.
"""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

# Key in the schema of a model. The value contains examples of the whole body by name. The name of a single example can
# be "".
BODY_EXAMPLES: Final = "x-body-examples"
_JSON_MEDIA_TYPE = "application/json"
_EXAMPLES_FILE = Path(__file__).with_name("examples.toml")
_SCHEMA_PREFIX = "#/components/schemas/"
_MAX_DEPTH = 8
_FORMAT_EXAMPLES: Final[dict[str, Any]] = {
    "uuid": "0190b6c2-7c11-7d52-9a43-0c5d8f2e6b10",
    "date-time": "2027-01-31T18:00:00Z",
    "date": "2027-01-31",
}
_MISSING = object()


def add_examples(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    bodies = {name: schema.pop(BODY_EXAMPLES) for name, schema in schemas.items() if BODY_EXAMPLES in schema}
    maker = _ExampleBuilder(schemas)
    for schema in schemas.values():
        for field, field_schema in schema.get("properties", {}).items():
            if "examples" not in field_schema and "$ref" not in field_schema and "example" not in field_schema:
                value = maker.of(field_schema, field)
                if value is not None:
                    field_schema["examples"] = [value]
    for path in document["paths"].values():
        for operation in path.values():
            _add_operation_examples(operation, maker, bodies)


def _add_operation_examples(operation: dict[str, Any], maker: "_ExampleBuilder", bodies: Mapping[str, Any]) -> None:
    content = operation.get("requestBody", {}).get("content", {}).get(_JSON_MEDIA_TYPE)
    if content is not None and "example" not in content:
        content |= _build_request_examples(content["schema"], maker, bodies)
    for status, answer in operation["responses"].items():
        media = answer.get("content", {}).get(_JSON_MEDIA_TYPE)
        if status < "4" and media is not None and media.get("schema"):
            media["example"] = maker.of(media["schema"])
    for parameter in operation.get("parameters", ()):
        if "example" not in parameter and parameter.get("required"):
            parameter["example"] = maker.of(parameter["schema"], parameter["name"])


def _build_request_examples(
    schema: Mapping[str, Any], maker: "_ExampleBuilder", bodies: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an object with the key `example`, or with the key `examples` if the body has several examples."""
    examples: dict[str, dict[str, Any]] = {}
    ways = [way for way in (*schema.get("oneOf", ()), *schema.get("anyOf", ()), schema) if "$ref" in way]
    for way in ways:
        name = way["$ref"].removeprefix(_SCHEMA_PREFIX)
        for own_name, example in (bodies.get(name) or {"": {"value": maker.of(way)}}).items():
            examples[own_name or name] = example
    if len(examples) > 1:
        return {"examples": examples}
    return {"example": next(iter(examples.values()))["value"] if examples else maker.of(schema)}


class _ExampleBuilder:
    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self._schemas = schemas

    def of(self, schema: Mapping[str, Any], name: str = "", depth: int = 0) -> Any:  # noqa: ANN401 -- JSON
        """Return an example value for a schema; None if the value is null, or if the schema is nested too deep."""
        if "$ref" in schema:
            if depth > _MAX_DEPTH:
                return None
            return self.of(self._schemas[schema["$ref"].removeprefix(_SCHEMA_PREFIX)], name, depth + 1)
        example = self._find(schema, name)
        if example is not _MISSING:
            return example
        for choices in ("anyOf", "oneOf"):
            ways = [way for way in schema.get(choices, ()) if way.get("type") != "null"]
            if ways:
                return self.of(ways[0], name, depth)
        return self._build(schema, name, depth)

    def _find(self, schema: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 -- JSON
        if schema.get("examples"):
            return schema["examples"][0]
        if "example" in schema:
            return schema["example"]
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return next((value for value in schema["enum"] if value != ""), "")
        value = _load_examples().get(name, _MISSING)
        return value if value is not _MISSING and _matches_schema(schema, value) else _MISSING

    def _build(self, schema: Mapping[str, Any], name: str, depth: int) -> Any:  # noqa: ANN401 -- JSON
        kind = schema.get("type")
        if kind == "object" or "properties" in schema:
            example: dict[str, Any] = {
                field: self.of(part, field, depth + 1) for field, part in schema.get("properties", {}).items()
            }
            return example
        if kind == "array":
            item = self.of(schema.get("items", {}), name, depth + 1)
            return [] if item is None else [item] * max(1, schema.get("minItems", 1))
        if kind == "string":
            return _FORMAT_EXAMPLES.get(schema.get("format", ""), "text")
        if kind in ("integer", "number"):
            return _build_number(schema)
        return {"boolean": False}.get(str(kind))


def _build_number(schema: Mapping[str, Any]) -> float:
    whole = schema["type"] == "integer"
    least: float = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    most: float = schema.get("maximum", 1_000_000)
    return min(max(least, 1 if whole else 0.5), most)


def _matches_schema(schema: Mapping[str, Any], value: object) -> bool:
    """Check only type and pattern, because a test validates the whole schema."""
    ways = schema.get("anyOf") or schema.get("oneOf")
    if ways:
        return any(_matches_schema(way, value) for way in ways)
    kinds = {"string": str, "boolean": bool, "array": list, "object": dict, "number": int | float, "integer": int}
    kind = kinds.get(schema.get("type", ""))
    if kind is None or schema.keys() & {"format", "enum", "const"} or isinstance(value, bool) != (kind is bool):
        return False
    if "properties" in schema or "$ref" in schema or "$ref" in schema.get("items", {}):
        return False
    if isinstance(value, list) and value:
        return _matches_schema(schema.get("items", {}), value[0])
    if isinstance(value, dict) and value and isinstance(schema.get("additionalProperties"), dict):
        return _matches_schema(schema["additionalProperties"], next(iter(value.values())))
    return isinstance(value, kind) and (kind is not str or re.search(schema.get("pattern", ""), str(value)) is not None)


@cache
def _load_examples() -> Mapping[str, Any]:
    return tomllib.loads(_EXAMPLES_FILE.read_text(encoding="utf-8"))
