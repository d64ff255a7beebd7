"""Each field of each PATCH: null is rejected, or does what the field's description says."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.isolation.fuzz_inputs import as_whom, things_of
from tests.isolation.installation import BY_NAME, ROUTES, Installation, Route
from tests.isolation.request_isolation import RequestIsolation

# Secrets are never returned. A NAS keeps an identifier or an address. The feed is a webhook without syslog settings.
_NOT_SHOWN = {("updateNas", "secret")}
_BESIDE = {("updateNas", "identifier"): {"address": "192.0.2.250"}}
_OF_SYSLOG = {"port", "facility", "app_name", "hostname", "enterprise", "severities", "bom"}


def _patches(world: Installation, noun: str) -> Iterator[tuple[Route, str, dict[str, Any]]]:
    """Route, name and schema of each field."""
    document = world.app.openapi()
    for route in ROUTES[noun]:
        if route.method == "PATCH":
            operation = document["paths"][f"/v1{route.path}"]["patch"]
            reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            fields = document["components"]["schemas"][reference.rpartition("/")[2]]["properties"]
            yield from ((route, name, schema) for name, schema in fields.items())


def _is_nullable(schema: dict[str, Any]) -> bool:
    return {"type": "null"} in schema.get("anyOf", ())


@pytest.mark.parametrize("noun", [noun for noun in ROUTES if any(each.method == "PATCH" for each in ROUTES[noun])])
def test_null_in_a_change_is_rejected_or_clears(world: Installation, isolation: RequestIsolation, noun: str) -> None:
    for route, field, schema in _patches(world, noun):
        things = things_of(world, route)
        asked = route.good.asked(route.path, things)
        needed = asked.get("body", {}) if _has_required(world, route) else _BESIDE.get((route.name, field), {})
        asked["body"] = {**needed, field: None}
        with isolation.open():
            answer = world.call(route.method, headers=as_whom(world, route, things), **asked)
        where = (route.name, field, answer.text[:500])
        if not _is_nullable(schema):
            assert answer.status == 422, where
            assert [each["place"] for each in answer.json["mistakes"]] == [field], where
        elif noun == "feeds" and field in _OF_SYSLOG:
            assert (answer.status, answer.json["place"]) == (422, field), where
        else:
            assert answer.status == 200, where
            assert "null" in schema["description"], where
            if noun != "feeds" and (route.name, field) not in _NOT_SHOWN:
                assert answer.json[field] is None, where


def _has_required(world: Installation, route: Route) -> bool:
    document = world.app.openapi()
    body = document["paths"][f"/v1{route.path}"]["patch"]["requestBody"]["content"]["application/json"]["schema"]
    return bool(document["components"]["schemas"][body["$ref"].rpartition("/")[2]].get("required"))


def test_all_changes_are_covered() -> None:
    assert sum(route.method == "PATCH" for route in BY_NAME.values()) >= 25
