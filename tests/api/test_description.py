"""`/openapi.json`: responses, texts, examples, lists, names in generated clients, and caching by clients."""

import gzip
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from api.access import AllowsAnyone
from api.described.described_routes import collect_routes
from api.main import create_app
from cli import openapi
from cli.devtools import permissions_page
from tests.api.app_server import serve_app, settings_of_public
from tests.postgres import Database

Document = dict[str, Any]
# Responses that are not lists of rows, or are always short.
OTHERWISE: Final = {
    "listCertificateProfiles": "a fixed set: the built-in profiles",
    "listDecisionCounts": "one row for each interval of a period of at most 1,500 intervals",
    "listEndpointTimeline": "only newest first, because Admit merges five sources",
    "listMyGrants": "one document with all permissions of the caller",
    "listMyPlaces": "only sorted by the key, and as short as the list of the person's grants",
    "listPolicyAttributes": "a fixed set: the attributes that policies can read",
    "listRejectReasons": "sums by reason code, of which there are about sixty",
    "listRetention": "a fixed set: the logs",
    "listRetentionLimits": "a fixed set: the logs",
    "listSecretRotationNases": "only sorted by the key, because Admit computes the rows from three tables",
    "listSnippets": "a fixed set: the built-in templates",
    "listUsage": "sums, the largest first, without a cursor",
    "search": "best first, at most 50 items",
    "listVendors": "a fixed set: the built-in vendors",
}


# Words that no name of a field or parameter may contain, because they do not say who did what.
VAGUE_WORDS: Final = {"asked", "found", "given", "mine", "said", "shown", "told", "wanted"}


@pytest.fixture(scope="module")
def described() -> Document:
    return openapi.description()


def _operations(document: Document) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield path, method, operation


def _resolved(document: Document, part: dict[str, Any]) -> dict[str, Any]:
    """Follow references to schemas and responses."""
    while "$ref" in part:
        _, _, kind, name = part["$ref"].split("/")
        part = document["components"][kind][name]
    return part


def test_names_of_fields_and_parameters_have_no_vague_word(described: Document) -> None:
    fields = [name for schema in described["components"]["schemas"].values() for name in schema.get("properties", ())]
    parameters = [each["name"] for *_, row in _operations(described) for each in row.get("parameters", ())]
    assert [name for name in fields + parameters if VAGUE_WORDS & set(re.split("[_-]", name))] == []


def test_every_route_documents_its_problem_responses(described: Document) -> None:
    for path, method, operation in _operations(described):
        responses = operation["responses"]
        wanted = {"400", "404", "422", "429", "503"} | ({"409", "412", "413", "415"} if method != "get" else set())
        assert wanted <= responses.keys(), (method, path)
        for status in (status for status in responses if status >= "4"):
            content = _resolved(described, responses[status])["content"]["application/problem+json"]
            assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
    assert "HTTPValidationError" not in described["components"]["schemas"]


def test_everything_has_a_description(described: Document) -> None:
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
    assert missing == [], "add a description to the field"
    tags = {tag["name"] for tag in described["tags"]}
    assert {tag for _, _, operation in _operations(described) for tag in operation["tags"]} == tags
    assert all(described["info"][name] for name in ("summary", "description", "license"))
    assert described["servers"]


def test_each_operation_names_its_permission(described: Document) -> None:
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


def test_headers_are_documented_where_they_occur(described: Document) -> None:
    known = described["components"]["headers"].keys()
    for path, method, operation in _operations(described):
        for status, answer in operation["responses"].items():
            told = _resolved(described, answer)["headers"].keys()
            assert told <= known, (method, path, status)
            assert "X-Request-Id" in told
    endpoint = described["paths"]["/v1/tenants/{tenant}/endpoints/{mac}"]
    assert "ETag" in endpoint["get"]["responses"]["200"]["headers"]
    changed = endpoint["patch"]["responses"]["200"]["headers"].keys()
    assert {"ETag", "Admit-Position", "Admit-Live", "Idempotency-Replayed"} <= changed
    given = {parameter["name"].lower() for parameter in endpoint["patch"]["parameters"]}
    assert {"if-match", "idempotency-key", "wait"} <= given


def test_every_example_is_valid(described: Document) -> None:
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


def test_names_of_schemas_do_not_leak_python(described: Document) -> None:
    schemas = described["components"]["schemas"]
    assert [name for name in schemas if not re.fullmatch("[A-Z][A-Za-z0-9]*", name)] == []
    assert {name for name in schemas if re.search(r"\d$|Output$|^Api", name)} <= {"Pkcs12"}
    assert schemas["Tenant"]["properties"]["status"]["enum"] == ["active", "suspended", "deleting"]


def _lists(document: Document) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield operation and response of each operation that returns rows."""
    for _, method, operation in _operations(document):
        content = operation["responses"].get("200", {}).get("content", {}).get("application/json")
        if method != "get" or content is None:
            continue
        schema = _resolved(document, content["schema"])
        rows = schema.get("type") == "array" or {"items"} <= schema.get("properties", {}).keys() <= {"items", "next"}
        if rows or operation["operationId"].startswith("list"):
            yield operation["operationId"], operation, schema


def test_every_list_has_pages_and_orders(described: Document) -> None:
    found = {name: (operation, schema) for name, operation, schema in _lists(described)}
    assert len(found) > 60
    for name, (operation, schema) in found.items():
        asked = {each["name"]: each["schema"] for each in operation.get("parameters", ())}
        is_page = schema.get("properties", {}).keys() >= {"items", "next"}
        is_paged = is_page and {"limit", "after", "sort"} <= asked.keys()
        assert is_paged != (name in OTHERWISE), name
        if is_paged:
            names = set(_resolved(described, asked["sort"])["enum"])
            assert {each.removeprefix("-") for each in names} <= names, name
    assert OTHERWISE.keys() <= found.keys()


def _plain(name: str) -> str:
    """Normalise a name as generators do. Modules of some languages ignore case."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _duplicates(given: Iterable[str]) -> list[str]:
    return [name for name, times in Counter(map(_plain, given)).items() if times > 1]


def _inline(owner: str, schema: dict[str, Any]) -> Iterator[str]:
    """Enumerations and objects without a name, which generators name by position."""
    for field, part in schema.get("properties", {}).items():
        for inner in (part, part.get("items", {}), *part.get("anyOf", ())):
            if len(inner.get("enum", ())) > 1 or inner.get("properties"):
                yield f"{owner} {field}"
                break


def test_schemas_and_inline_parts_have_unique_names(described: Document) -> None:
    schemas = described["components"]["schemas"]
    inline = [name for owner, schema in schemas.items() for name in _inline(owner, schema)]
    assert len(inline) > 50
    assert _duplicates([*schemas, *inline]) == []
    # A generator of Go clients creates a constructor NewSite for a schema Site.
    assert _duplicates([*schemas, *(f"New{name}" for name in schemas)]) == []


def test_operations_have_a_unique_name_and_one_tag(described: Document) -> None:
    """A generator of Go clients would create the request types once for each tag."""
    operations = [operation for _, _, operation in _operations(described)]
    assert _duplicates(operation["operationId"] for operation in operations) == []
    assert [each["operationId"] for each in operations if len(each["tags"]) != 1] == []
    assert _duplicates(tag["name"] for tag in described["tags"]) == []


def test_numbers_declare_their_size(described: Document) -> None:
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


def test_public_operations_declare_no_security(described: Document) -> None:
    public = [told for told in collect_routes(openapi.application()).values() if isinstance(told.asks, AllowsAnyone)]
    assert len(public) > 9
    for _, _, operation in _operations(described):
        is_public = operation["operationId"] in {told.operation_id for told in public}
        assert (operation["security"] == []) == is_public, operation["operationId"]


def test_description_is_built_once_and_cached_by_etag(database: Database, tmp_path: Path) -> None:
    app = create_app(settings_of_public(database, tmp_path))
    with serve_app(app) as client:
        plain = client.get("/openapi.json", headers={"Accept-Encoding": "identity"})
        packed = client.get("/openapi.json", headers={"Accept-Encoding": "gzip"})
        assert plain.json() == packed.json() == app.openapi()
        assert list(plain.json()["paths"]["/readyz"]["get"]["responses"]) == ["200", "503"]
        assert packed.headers["content-encoding"] == "gzip"
        assert len(gzip.compress(plain.content)) < len(plain.content) / 5
        known = client.get("/openapi.json", headers={"If-None-Match": packed.headers["etag"]})
        assert (known.status_code, known.content) == (304, b"")
        assert plain.headers["etag"] != packed.headers["etag"]
        app.openapi_schema = {"paths": {}}
        assert client.get("/openapi.json").json() == plain.json()
        # Other responses are not cacheable.
        answer = client.get("/v1/tenants/alpha")
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "strict-transport-security" not in answer.headers
