"""Every list operation of the API supports pages and sort orders."""

from collections.abc import Iterator
from typing import Any

import pytest

from cli import openapi

# Responses that are not lists of rows, or are always short.
OTHERWISE = {
    "listCertificateProfiles": "a fixed set: those that are built in",
    "listMyGrants": "one document of what the asker may do where",
    "listMyPlaces": "in one order, that of its key, and for as long as a person has places",
    "listPolicyAttributes": "a fixed set: what policies can ask for",
    "listRetention": "a fixed set: the logs",
    "listRetentionLimits": "a fixed set: the logs",
    "listSecretRotationNases": "in one order, that of its key: worked out of three tables",
    "listSnippets": "a fixed set: the templates that Admit comes with",
    "listUsage": "sums, the largest first: no rows to go on behind",
    "listVendors": "a fixed set: the vendors that Admit knows",
}


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return openapi.description()


def lists(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield operation and response of each operation that returns rows."""
    for operations in document["paths"].values():
        operation = operations.get("get", {})
        content = operation.get("responses", {}).get("200", {}).get("content", {}).get("application/json")
        if content is None:
            continue
        schema = resolved(document, content["schema"])
        rows = schema.get("type") == "array" or {"items"} <= schema.get("properties", {}).keys() <= {"items", "next"}
        if rows or operation["operationId"].startswith("list"):
            yield operation["operationId"], operation, schema


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def test_every_list_has_pages_and_orders(described: dict[str, Any]) -> None:
    found = {name: (operation, schema) for name, operation, schema in lists(described)}
    assert len(found) > 60
    for name, (operation, schema) in found.items():
        asked = {each["name"]: each["schema"] for each in operation.get("parameters", ())}
        is_page = schema.get("properties", {}).keys() >= {"items", "next"}
        is_paged = is_page and {"limit", "after", "sort"} <= asked.keys()
        assert is_paged != (name in OTHERWISE), name
        if is_paged:
            names = set(resolved(described, asked["sort"])["enum"])
            assert {each.removeprefix("-") for each in names} <= names, name
    assert OTHERWISE.keys() <= found.keys()
