"""A body without required fields is optional, for each such operation of the description."""

from typing import Any

import pytest

from tests.isolation.fuzz_inputs import as_whom, things_of
from tests.isolation.installation import BY_NAME, ROUTES, Installation
from tests.isolation.request_isolation import RequestIsolation


def _bodies(world: Installation) -> dict[str, dict[str, Any]]:
    """The body schema of each POST, by its name."""
    return {
        operations["post"]["operationId"]: operations["post"]["requestBody"]
        for operations in world.app.openapi()["paths"].values()
        if "requestBody" in operations.get("post", {})
    }


def _is_all_optional(world: Installation, body: dict[str, Any]) -> bool:
    """Return whether `{}` matches the schema."""
    schema = body["content"].get("application/json", {}).get("schema", {})
    name = schema.get("$ref", "").rpartition("/")[2]
    return bool(name) and not world.app.openapi()["components"]["schemas"][name].get("required")


def test_optional_bodies_are_documented(world: Installation) -> None:
    bodies = _bodies(world)
    told = {name for name, body in bodies.items() if body["required"] is False}
    assert told == {name for name, body in bodies.items() if _is_all_optional(world, body)}
    assert len(told) > 20


@pytest.mark.parametrize("noun", ROUTES)
def test_missing_body_is_treated_as_an_empty_one(world: Installation, isolation: RequestIsolation, noun: str) -> None:
    told = {name for name, body in _bodies(world).items() if body["required"] is False}
    for route in (each for each in ROUTES[noun] if each.name in told):
        things = things_of(world, route)
        asked = {name: part for name, part in route.good.asked(route.path, things).items() if name != "body"}
        answers = []
        for body in ({}, {"body": {}}, {"content": b"null"}):
            headers = as_whom(world, route, things)
            if "content" in body:
                headers["Content-Type"] = "application/json"
            with isolation.open():
                answers.append(world.call(route.method, headers=headers, **asked, **body))
        left, empty, null = answers
        assert left.status == empty.status == null.status, (route, left.text, empty.text, null.text)
        assert left.status < 500, (route, left.text)
        if left.status >= 400:
            assert left.json == empty.json, (route, left.text, empty.text)
            assert left.json.get("place") != "body", (route, left.text)
    assert told <= BY_NAME.keys()
