"""Operations of an OpenAPI 3.1 document, from which commands are built."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

_METHODS = ("get", "post", "put", "patch", "delete")
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")
_JSON = "application/json"

Document = Mapping[str, Any]


# `scalar`: text, number or boolean. `texts`, `scalars`: objects with only texts or only scalars. `json`: any other
# value.
Kind = Literal["text", "time", "integer", "number", "boolean", "scalar", "texts", "scalars", "json"]
_KINDS: Mapping[str, Kind] = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}


@dataclass(frozen=True, slots=True)
class OperationInput:
    """Value in a path, a query, a header or a body."""

    # Name in the API. A value inside an object of the body has a name such as `object.value`.
    name: str
    where: Literal["path", "query", "header", "body"]
    kind: Kind
    required: bool = False
    repeated: bool = False
    nullable: bool = False
    choices: tuple[str, ...] = ()
    help: str = ""
    # If only one form of the body has this value, the kind of this form; "" if all forms have the value.
    form: str = ""

    @property
    def option(self) -> str:
        return self.name.rpartition(".")[2].lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    noun: str
    method: str
    path: str
    help: str
    values: tuple[OperationInput, ...]
    # Media type of the body; "" without a body.
    takes: str
    # Whether the response is a page of a list.
    is_page: bool
    # Whether the response is a file, not JSON.
    has_file: bool


def read_operations(document: Document) -> dict[str, Operation]:
    """Return the operations by name, which is the operationId with hyphens."""
    found = [
        _operation(document, path, method)
        for path, methods in document.get("paths", {}).items()
        for method in _METHODS
        if method in methods and "operationId" in methods[method]
    ]
    return {each.name: each for each in found}


def hyphenate(operation_id: str) -> str:
    return _WORD_START.sub("-", operation_id).lower()


def _operation(document: Document, path: str, method: str) -> Operation:
    told = document["paths"][path][method]
    values = [_parameter(document, each) for each in told.get("parameters", ())]
    # The order of the path is the order of arguments.
    values.sort(key=lambda value: path.find(f"{{{value.name}}}") if value.where == "path" else len(path))
    takes, schema = _body(document, told)
    values += _members(document, schema)
    return Operation(
        name=hyphenate(told["operationId"]),
        noun=next(iter(told.get("tags", ())), ""),
        method=method.upper(),
        path=path,
        help=told.get("description") or told.get("summary", ""),
        values=tuple(values),
        takes=takes,
        is_page=_is_page(document, told),
        has_file=_has_file(told),
    )


def _parameter(document: Document, told: Document) -> OperationInput:
    told = _resolve(document, told)
    return _value(
        document,
        told["name"],
        told["in"],
        told.get("schema", {}),
        required=told.get("required", False),
        text=told.get("description", ""),
    )


def _body(document: Document, told: Document) -> tuple[str, Document]:
    content = told.get("requestBody", {}).get("content", {})
    if _JSON in content:
        return _JSON, _resolve(document, content[_JSON].get("schema", {}))
    return next(iter(content), ""), {}


def _members(document: Document, schema: Document) -> list[OperationInput]:
    """Return the values that a body can have.

    The name of a value inside an object contains a dot, such as `settings.url`.

    If the body has several forms, the result has the values of each form.
    """
    forms = [_resolve(document, form) for form in schema.get("oneOf", (schema,))]
    found: dict[str, OperationInput] = {}
    for form in forms:
        kinds = _choices(form.get("properties", {}).get("kind", {})) if len(forms) > 1 else ()
        for name, member in form.get("properties", {}).items():
            is_required = all(name in each.get("required", ()) for each in forms)
            inner = _resolve(document, member)
            if len(forms) > 1 and inner.get("properties"):
                made = [replace(part, name=f"{name}.{part.name}", required=False) for part in _members(document, inner)]
            else:
                text = member.get("description", "")
                made = [_value(document, name, "body", member, required=is_required, text=text)]
            for value in made:
                found[value.name] = replace(value, form="" if value.name in found else "".join(kinds))
    return list(found.values())


def _value(document: Document, name: str, where: Any, schema: Document, *, required: bool, text: str) -> OperationInput:  # noqa: ANN401 -- of OpenAPI's four words
    schema, nullable = _without_null(document, schema)
    repeated = schema.get("type") == "array"
    item, _ = _without_null(document, schema.get("items", {})) if repeated else (schema, False)
    kind = _kind(document, item)
    if repeated and kind == "json":
        repeated = False
    example = next(iter(schema.get("examples", ())), None)
    if example is not None and not text:
        text = f"For example {example}."
    return OperationInput(name, where, kind, required, repeated, nullable, _choices(item), text)


def _choices(schema: Document) -> tuple[str, ...]:
    """Return the allowed texts; empty if other values are valid too."""
    ways = [_choices(way) for way in schema.get("anyOf", ()) if way.get("type") != "null"]
    if ways:
        return tuple(choice for way in ways for choice in way) if all(ways) else ()
    return tuple(map(str, schema.get("enum", ()))) or ((str(schema["const"]),) if "const" in schema else ())


def _kind(document: Document, schema: Document) -> Kind:
    if _choices(schema):
        return "text"
    if schema.get("format") == "date-time":
        return "time"
    members = schema.get("additionalProperties")
    if isinstance(members, Mapping) and not schema.get("properties") and _is_scalar(document, members):
        return "texts" if _is_scalar(document, members, ("string", "null")) else "scalars"
    return _KINDS.get(str(schema.get("type")), "scalar" if _is_scalar(document, schema) else "json")


def _is_scalar(document: Document, schema: Document, types: Collection[str] = (*_KINDS, "null")) -> bool:
    ways = [_resolve(document, way) for way in schema.get("anyOf", (schema,))]
    return all(way.get("type") in types for way in ways)


def _without_null(document: Document, schema: Document) -> tuple[Document, bool]:
    """Return the schema without null, and whether the schema allowed null.

    A schema with several other types stays unchanged.
    """
    schema = _resolve(document, schema)
    ways = [_resolve(document, way) for way in schema.get("anyOf", ())]
    others = [way for way in ways if way.get("type") != "null"]
    if len(others) != 1:
        return schema, len(others) < len(ways)
    beside = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**others[0], **beside}, len(others) < len(ways)


def _has_file(told: Document) -> bool:
    success = told.get("responses", {}).get("200")
    return success is not None and _JSON not in success.get("content", {})


def _is_page(document: Document, told: Document) -> bool:
    content = told.get("responses", {}).get("200", {}).get("content", {})
    schema = _resolve(document, content.get(_JSON, {}).get("schema", {}))
    return {"items", "next"} <= set(schema.get("properties", {}))


def _resolve(document: Document, schema: Document) -> Document:
    for _ in range(10):
        reference = schema.get("$ref")
        if reference is None:
            return schema
        schema = document
        for part in str(reference).removeprefix("#/").split("/"):
            schema = schema[part]
    return schema
