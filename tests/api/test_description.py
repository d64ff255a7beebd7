"""The OpenAPI document lists the error responses of each operation."""

from typing import Any

import pytest

from cli import openapi


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return openapi.description()


def test_every_route_documents_its_problem_responses(described: dict[str, Any]) -> None:
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
    """Error responses are defined once for all operations."""
    name = answer.get("$ref", "").rpartition("/")[2]
    return document["components"]["responses"][name] if name else answer
