"""Missing and empty bodies, null, and changes without an effect, for each route."""

import json
from typing import Any

import pytest
from sqlalchemy import text

from api.access import RequiresSelf
from tests.isolation.asgi_caller import AsgiResponse
from tests.isolation.fuzz_inputs import as_whom, things_of
from tests.isolation.installation import BY_NAME, ROUTES, Installation, Route
from tests.isolation.request_isolation import RequestIsolation

_NO_OBJECTS: tuple[bytes | None, ...] = (None, b"null", b"[]", b'"text"', b"5", b"true")
_ENTRIES = text("SELECT count(*) FROM audit_log")
# These settings are returned in another form than they are sent.
_SHOWN_OTHERWISE = {
    "updateFeed": {"url", "headers", "ca_certificate", "client_certificate"},
    "updateIdentitySource": {"secret"},
    "updatePool": {"reserved"},
    "updateAuthoritySources": {"crl_url", "ocsp_url"},
}
# Secrets are never returned. A NAS keeps an identifier or an address. The feed is a webhook without syslog settings.
_NOT_SHOWN = {("updateNas", "secret")}
_BESIDE = {("updateNas", "identifier"): {"address": "192.0.2.250"}}
_OF_SYSLOG = {"port", "facility", "app_name", "hostname", "enterprise", "severities", "bom"}
PATCHES = [route for route in BY_NAME.values() if route.method == "PATCH"]


def _optional(world: Installation) -> dict[str, bool]:
    """Return whether each operation with a JSON body may omit it."""
    bodies = {name: world.described(route).get("requestBody") for name, route in BY_NAME.items()}
    return {
        name: body["required"] is False
        for name, body in bodies.items()
        if body and "application/json" in body["content"]
    }


def _ask(world: Installation, route: Route, content: bytes | None) -> AsgiResponse:
    things = things_of(world, route)
    asked = {name: part for name, part in route.good.asked(route.path, things).items() if name in ("path", "query")}
    headers = as_whom(world, route, things)
    if content is not None:
        headers["Content-Type"] = "application/json"
    return world.call(route.method, headers=headers, content=content, **asked)


def test_optional_bodies_are_documented(world: Installation) -> None:
    """A POST without required fields needs no body."""
    told = {name for name, is_optional in _optional(world).items() if is_optional}
    named = {name for name, is_optional in _optional(world).items() if BY_NAME[name].method == "POST"}
    schemas = {name: world.body_schema(BY_NAME[name]) for name in named}
    assert told == {name for name, schema in schemas.items() if "oneOf" not in schema and not schema.get("required")}
    assert len(told) > 20


@pytest.mark.parametrize("noun", ROUTES)
def test_missing_body_is_empty_or_reported_with_a_remedy(
    world: Installation, isolation: RequestIsolation, noun: str
) -> None:
    optional = _optional(world)
    for route in (each for each in ROUTES[noun] if each.name in optional):
        answers: dict[bytes | None, AsgiResponse] = {}
        for content in (b"{}", *_NO_OBJECTS):
            with isolation.open():
                answers[content] = _ask(world, route, content)
        empty = answers.pop(b"{}")
        for content, answer in answers.items():
            where = (route.name, content, answer.text, empty.text)
            if content in (None, b"null") and optional[route.name]:
                # The body is `{}`.
                assert answer.status == empty.status < 500, where
                if answer.status >= 400:
                    assert answer.json.get("place") != "body", where
                    assert content is not None or answer.json == empty.json, where
                continue
            if answer.status in (401, 403):
                # The request for the user's password takes precedence.
                continue
            assert answer.status == 422, where
            told = answer.json.get("mistakes") or [answer.json]
            assert [each.get("place") for each in told] == ["body"], where
            assert all(each["detail"] and each["remedy"] for each in told), where


def _shown(world: Installation, route: Route) -> AsgiResponse:
    things = things_of(world, route)
    asked = {name: part for name, part in route.good.asked(route.path, things).items() if name in ("path", "query")}
    return world.call("GET", headers=as_whom(world, route, things), **asked)


def _as_it_is(route: Route, schema: dict[str, Any], shown: dict[str, Any]) -> dict[str, Any]:
    """Return the current values, as far as they can be sent back."""
    inner = shown.get("settings") if isinstance(shown.get("settings"), dict) else {}
    values = {**inner, **shown} if "settings" not in schema["properties"] else shown
    names = schema["properties"].keys() & values.keys() - _SHOWN_OTHERWISE.get(route.name, set())
    return {name: values[name] for name in names if values[name] not in (None, False) or name != "default"}


def test_empty_change_returns_the_current_state(world: Installation, isolation: RequestIsolation) -> None:
    """The only other response names the missing field."""
    seen: set[str] = set()
    for route in PATCHES:
        schema = world.body_schema(route)
        with isolation.open():
            before = None if isinstance(route.asks, RequiresSelf) else _shown(world, route)
            entries = isolation.connection.scalar(_ENTRIES)
            bodies = [b"{}"]
            if before is not None and before.status == 200:
                bodies.append(json.dumps(_as_it_is(route, schema, before.json)).encode())
            for content in bodies:
                answer = _ask(world, route, content)
                where = (route.name, content, answer.status, answer.text)
                if content == b"{}" and schema.get("required"):
                    assert answer.status == 422, where
                    assert {each["place"] for each in answer.json["mistakes"]} == set(schema["required"]), where
                    assert {each["detail"] for each in answer.json["mistakes"]} == {"The value is required."}, where
                    continue
                if before is None or before.status != 200:
                    continue
                assert answer.status == 200, where
                assert answer.headers["etag"].partition("-")[0] == before.headers["etag"].partition("-")[0], where
                assert isolation.connection.scalar(_ENTRIES) == entries, where
                seen.add(route.name)
    assert len(seen) > 15, sorted(seen)


@pytest.mark.parametrize("route", PATCHES, ids=lambda route: route.name)
def test_null_in_a_change_is_rejected_or_clears(world: Installation, isolation: RequestIsolation, route: Route) -> None:
    """The field's description says what null does."""
    things, told = things_of(world, route), world.body_schema(route)
    for field, schema in told["properties"].items():
        asked = route.good.asked(route.path, things)
        needed = asked.get("body", {}) if told.get("required") else _BESIDE.get((route.name, field), {})
        asked["body"] = {**needed, field: None}
        with isolation.open():
            answer = world.call(route.method, headers=as_whom(world, route, things), **asked)
        where = (route.name, field, answer.text[:500])
        if {"type": "null"} not in schema.get("anyOf", ()):
            assert answer.status == 422, where
            assert [each["place"] for each in answer.json["mistakes"]] == [field], where
        elif route.name == "updateFeed" and field in _OF_SYSLOG:
            assert (answer.status, answer.json["place"]) == (422, field), where
        else:
            assert answer.status == 200, where
            assert "null" in schema["description"], where
            if route.name != "updateFeed" and (route.name, field) not in _NOT_SHOWN:
                assert answer.json[field] is None, where


def test_all_changes_are_covered() -> None:
    assert len(PATCHES) >= 25
