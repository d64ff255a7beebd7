"""docs/openapi.json is what programs rely on: it says what the code says, and what would break them is told apart."""

import copy
from typing import Any

import pytest

from cli import openapi
from cli.openapi_changes import changes


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return openapi.description()


def test_promise_is_what_the_code_says(described: dict[str, Any]) -> None:
    promised = openapi.PROMISED.read_text(encoding="utf-8")
    assert promised == openapi.text(described), f"the API has changed: {openapi.REMEDY}"


def test_every_route_tells_its_refusals_as_problems(described: dict[str, Any]) -> None:
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            responses = operation["responses"]
            wanted = {"400", "404", "422", "429", "503"} | ({"409", "412", "413", "415"} if method != "get" else set())
            assert wanted <= responses.keys(), (method, path)
            for status in (status for status in responses if status >= "4"):
                content = _answer(described, responses[status])["content"]["application/problem+json"]
                assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
    assert "HTTPValidationError" not in described["components"]["schemas"]


def _answer(document: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Refusals are told once for all operations."""
    name = answer.get("$ref", "").rpartition("/")[2]
    return document["components"]["responses"][name] if name else answer


_LIST = "/v1/tenants/{tenant}/endpoints"


def _schema(document: dict[str, Any], name: str) -> dict[str, Any]:
    return document["components"]["schemas"][name]


def _without(document: dict[str, Any]) -> None:
    del document["paths"][_LIST]["post"]


def _renamed(document: dict[str, Any]) -> None:
    document["paths"][_LIST]["get"]["operationId"] = "other"


def _required(document: dict[str, Any]) -> None:
    _schema(document, "EndpointInput")["required"].append("name")


def _shorter(document: dict[str, Any]) -> None:
    _schema(document, "EndpointInput")["properties"]["name"]["maxLength"] = 10


def _less_told(document: dict[str, Any]) -> None:
    del _schema(document, "Endpoint")["properties"]["vendor"]


def _retyped(document: dict[str, Any]) -> None:
    _schema(document, "Endpoint")["properties"]["vendor"]["type"] = "integer"


def _required_parameter(document: dict[str, Any]) -> None:
    new = {"in": "query", "name": "new", "required": True, "schema": {"type": "string"}}
    document["paths"][_LIST]["get"]["parameters"].append(new)


def _more_told(document: dict[str, Any]) -> None:
    _schema(document, "Endpoint")["properties"]["color"] = {"type": "string"}


def _more_taken(document: dict[str, Any]) -> None:
    _schema(document, "EndpointInput")["properties"]["color"] = {"type": "string"}


def _new_route(document: dict[str, Any]) -> None:
    document["paths"]["/v1/new"] = copy.deepcopy(document["paths"][_LIST])


def test_a_name_in_place_of_an_id_breaks_nobody(described: dict[str, Any]) -> None:
    before = copy.deepcopy(described)
    for most, breaking in ((36, False), (253, False), (35, True)):
        now = copy.deepcopy(described)
        for document, schema in (
            (before, {"type": "string", "format": "uuid"}),
            (now, {"type": "string", "maxLength": most}),
        ):
            parameters = document["paths"]["/v1/tenants/{tenant}/users/{user}"]["get"]["parameters"]
            next(each for each in parameters if each["name"] == "user")["schema"] = schema
        assert [change.breaking for change in changes(before, now)] == ([True] if breaking else [])


@pytest.mark.parametrize(
    ("edit", "breaking"),
    [
        *((edit, True) for edit in (_without, _renamed, _required, _shorter, _less_told, _retyped)),
        (_required_parameter, True),
        *((edit, False) for edit in (_more_told, _more_taken, _new_route)),
    ],
)
def test_what_breaks_programs_is_told_apart(described: dict[str, Any], edit, breaking: bool) -> None:
    changed = copy.deepcopy(described)
    assert changes(described, changed) == []
    edit(changed)
    found = changes(described, changed)
    assert found
    assert any(change.breaking for change in found) == breaking, found
