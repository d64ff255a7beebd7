"""Operations of an OpenAPI 3.1 document, from which commands are built."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

_METHODS = ("get", "post", "put", "patch", "delete")
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")
_JSON = "application/json"

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OperationInput:
    """Value in a path, a query, a header or a body."""

    # Name in the API.
    name: str
    where: Literal["path", "query", "header", "body"]
    kind: Literal["text", "integer", "number", "boolean", "json"]
    required: bool = False
    repeated: bool = False
    nullable: bool = False
    choices: tuple[str, ...] = ()
    help: str = ""

    @property
    def option(self) -> str:
        return self.name.lower().replace("_", "-")


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

    def of(self, where: str) -> Iterator[OperationInput]:
        return (value for value in self.values if value.where == where)


class Operations(Mapping[str, Operation]):
    """Operations by name: the operationId with hyphens. Parsed on access, because a command needs only one."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._paths = {
            _WORD_START.sub("-", methods[method]["operationId"]).lower(): (path, method)
            for path, methods in document.get("paths", {}).items()
            for method in _METHODS
            if method in methods and "operationId" in methods[method]
        }

    def __getitem__(self, name: str) -> Operation:
        path, method = self._paths[name]
        return _operation(self._document, name, path, method)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def _operation(document: Document, name: str, path: str, method: str) -> Operation:
    described = document["paths"][path][method]
    values = [_parameter(document, each) for each in described.get("parameters", ())]
    # In order of the path, which is the order of arguments.
    values.sort(key=lambda value: path.find(f"{{{value.name}}}") if value.where == "path" else len(path))
    takes, schema = _body(document, described)
    values += _members(document, schema)
    return Operation(
        name=name,
        noun=next(iter(described.get("tags", ())), ""),
        method=method.upper(),
        path=path,
        help=described.get("description") or described.get("summary", ""),
        values=tuple(values),
        takes=takes,
        is_page=_is_page(document, described),
    )


def _parameter(document: Document, described: Document) -> OperationInput:
    described = _resolve(document, described)
    return _value(
        document,
        described["name"],
        described["in"],
        described.get("schema", {}),
        required=described.get("required", False),
        text=described.get("description", ""),
    )


def _body(document: Document, operation: Document) -> tuple[str, Document]:
    content = operation.get("requestBody", {}).get("content", {})
    if _JSON in content:
        return _JSON, _resolve(document, content[_JSON].get("schema", {}))
    return next(iter(content), ""), {}


def _members(document: Document, schema: Document) -> Iterator[OperationInput]:
    required = schema.get("required", ())
    for name, member in schema.get("properties", {}).items():
        yield _value(document, name, "body", member, required=name in required, text=member.get("description", ""))


def _value(document: Document, name: str, where: Any, schema: Document, *, required: bool, text: str) -> OperationInput:  # noqa: ANN401 -- of OpenAPI's four words
    schema, nullable = _without_null(document, schema)
    repeated = schema.get("type") == "array"
    item, _ = _without_null(document, schema.get("items", {})) if repeated else (schema, False)
    kind = _kind(item)
    if repeated and kind == "json":
        repeated = False
    example = next(iter(schema.get("examples", ())), None)
    if example is not None and not text:
        text = f"For example {example}."
    choices = tuple(map(str, item.get("enum", ()))) or ((str(item["const"]),) if "const" in item else ())
    return OperationInput(name, where, kind, required, repeated, nullable, choices, text)


def _kind(schema: Document) -> Any:  # noqa: ANN401 -- one of Value.kind
    kind = schema.get("type")
    if kind is None and ("enum" in schema or "const" in schema):
        return "text"
    return {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}.get(str(kind), "json")


def _without_null(document: Document, schema: Document) -> tuple[Document, bool]:
    """Schema without null, and whether null was allowed. Unchanged if several other types remain."""
    schema = _resolve(document, schema)
    ways = [_resolve(document, way) for way in schema.get("anyOf", ())]
    others = [way for way in ways if way.get("type") != "null"]
    if len(others) != 1:
        return schema, len(others) < len(ways)
    beside = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**others[0], **beside}, len(others) < len(ways)


def _is_page(document: Document, operation: Document) -> bool:
    content = operation.get("responses", {}).get("200", {}).get("content", {})
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
