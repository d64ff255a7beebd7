"""Texts in /openapi.json: descriptions, permissions, headers, examples and names."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from cli import openapi
from cli.devtools import permissions_page

_REMEDY = "add a description to the field"


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return openapi.description()


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield path, method, operation


def test_everything_has_a_description(described: dict[str, Any]) -> None:
    missing = [
        f"{name}.{field}"
        for name, schema in described["components"]["schemas"].items()
        for field, told in schema.get("properties", {}).items()
        if not told.get("description")
    ]
    for _, _, operation in _operations(described):
        name = operation["operationId"]
        parts = [*operation.get("parameters", ()), {"name": "the operation", **operation}]
        missing += [f"{name}: {part['name']}" for part in parts if not part.get("description")]
        missing += [] if not operation["description"].startswith("Permission") else [f"{name}: the operation"]
    assert missing == [], _REMEDY
    tags = {tag["name"] for tag in described["tags"]}
    assert {tag for _, _, operation in _operations(described) for tag in operation["tags"]} == tags
    assert all(described["info"][name] for name in ("summary", "description", "license"))
    assert described["servers"]


def test_each_operation_names_its_permission(described: dict[str, Any]) -> None:
    for path, method, operation in _operations(described):
        assert "Permission: " in operation["description"], (method, path)
        assert f"`{operation['x-permission']}`" in operation["description"] if "x-permission" in operation else True
    listing = described["paths"]["/v1/tenants/{tenant}/endpoints"]
    assert listing["get"]["x-permission"] == "endpoint.read"
    assert listing["get"]["security"] == [{"bearer": []}, {"cookie": []}]
    assert listing["post"]["security"] == [{"bearer": []}, {"cookie": [], "csrf": []}]


def test_permissions_page_matches_the_code() -> None:
    told = permissions_page.PAGE.path.read_text(encoding="utf-8")
    assert told == permissions_page.PAGE.render(), f"permissions or routes have changed: {permissions_page.PAGE.remedy}"


def test_headers_are_documented_where_they_occur(described: dict[str, Any]) -> None:
    known = described["components"]["headers"].keys()
    for path, method, operation in _operations(described):
        for status, answer in operation["responses"].items():
            name = answer.get("$ref", "").rpartition("/")[2]
            told = (described["components"]["responses"][name] if name else answer)["headers"].keys()
            assert told <= known, (method, path, status)
            assert "X-Request-Id" in told
    endpoint = described["paths"]["/v1/tenants/{tenant}/endpoints/{mac}"]
    assert "ETag" in endpoint["get"]["responses"]["200"]["headers"]
    changed = endpoint["patch"]["responses"]["200"]["headers"].keys()
    assert {"ETag", "Admit-Position", "Admit-Live", "Idempotency-Replayed"} <= changed
    given = {parameter["name"].lower() for parameter in endpoint["patch"]["parameters"]}
    assert {"if-match", "idempotency-key", "wait"} <= given


def test_every_example_is_valid(described: dict[str, Any]) -> None:
    parts = {"components": described["components"]}
    wrong = []
    for _, _, operation in _operations(described):
        contents = [operation.get("requestBody", {})]
        contents += [answer for status, answer in operation["responses"].items() if status < "4"]
        for content in contents:
            media = content.get("content", {}).get("application/json", {})
            if not media.get("schema"):
                continue
            validator = Draft202012Validator(media["schema"] | parts)
            several = media.get("examples", {"": {"value": media.get("example")}})
            values = [told["value"] for told in several.values()]
            found = [error for value in values for error in validator.iter_errors(value)]
            wrong += [f"{operation['operationId']}: {error.json_path}: {error.message}" for error in found]
    assert wrong == [], "api/described/examples.toml, or the field's own examples"


def test_names_of_schemas_do_not_leak_python(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    assert [name for name in schemas if not re.fullmatch("[A-Z][A-Za-z0-9]*", name)] == []
    assert schemas["Tenant"]["properties"]["status"]["enum"] == ["active", "suspended", "deleting"]
