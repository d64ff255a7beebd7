"""Names in /openapi.json stay distinct in generated clients: modules, classes, methods and constructors."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from api.access import AllowsAnyone
from api.described.described_routes import collect_routes
from cli import openapi


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return openapi.description()


def _plain(name: str) -> str:
    """Normalise a name as generators do. Modules of some languages ignore case."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _duplicates(given: Iterable[str]) -> list[str]:
    return [name for name, times in Counter(map(_plain, given)).items() if times > 1]


def _operations(described: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for operations in described["paths"].values():
        yield from operations.values()


def _inline(owner: str, schema: dict[str, Any]) -> Iterator[str]:
    """Enumerations and objects without a name, which generators name by position."""
    for field, part in schema.get("properties", {}).items():
        for inner in (part, part.get("items", {}), *part.get("anyOf", ())):
            if len(inner.get("enum", ())) > 1 or inner.get("properties"):
                yield f"{owner} {field}"
                break


def test_schemas_and_inline_parts_have_unique_names(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    inline = [name for owner, schema in schemas.items() for name in _inline(owner, schema)]
    assert len(inline) > 50
    assert _duplicates([*schemas, *inline]) == []


def test_constructors_have_unique_names(described: dict[str, Any]) -> None:
    """A generator of Go clients creates a constructor NewSite for a schema Site."""
    schemas = described["components"]["schemas"]
    assert _duplicates([*schemas, *(f"New{name}" for name in schemas)]) == []


def test_operations_have_a_unique_name_and_one_tag(described: dict[str, Any]) -> None:
    """A generator of Go clients would create the request types once for each tag."""
    operations = list(_operations(described))
    assert _duplicates(operation["operationId"] for operation in operations) == []
    assert [each["operationId"] for each in operations if len(each["tags"]) != 1] == []
    assert _duplicates(tag["name"] for tag in described["tags"]) == []


def test_schema_names_are_not_placeholders(described: dict[str, Any]) -> None:
    odd = [name for name in described["components"]["schemas"] if re.search(r"\d$|Output$|^Api", name)]
    assert set(odd) <= {"Pkcs12"}


def test_numbers_declare_their_size(described: dict[str, Any]) -> None:
    """A generator of Go clients would use 32 bits for an integer without a format."""

    def unsized(part: Any, where: str) -> Iterator[str]:
        if isinstance(part, dict):
            if part.get("type") in ("integer", "number") and "format" not in part:
                yield where
            for name, inner in part.items():
                if name not in ("example", "examples"):
                    yield from unsized(inner, f"{where}.{name}")
        elif isinstance(part, list):
            for inner in part:
                yield from unsized(inner, where)

    fields = {"schemas": described["components"]["schemas"], "paths": described["paths"]}
    assert list(unsized(fields["schemas"], "")) + list(unsized(fields["paths"], "")) == []


def test_public_operations_declare_no_security(described: dict[str, Any]) -> None:
    public = [told for told in collect_routes(openapi.application()).values() if isinstance(told.asks, AllowsAnyone)]
    assert len(public) > 9
    for operation in _operations(described):
        is_public = operation["operationId"] in {told.operation_id for told in public}
        assert (operation["security"] == []) == is_public, operation["operationId"]
