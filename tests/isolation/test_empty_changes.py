"""Empty bodies and changes without an effect, for each route."""

import json
from collections.abc import Iterator
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


def _schema(world: Installation, of: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in of:
        return of
    found: dict[str, Any] = world.app.openapi()["components"]["schemas"][of["$ref"].rpartition("/")[2]]
    return found


def _bodies(world: Installation) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, name and body schema of each operation that reads JSON."""
    for operations in world.app.openapi()["paths"].values():
        for method, operation in operations.items():
            body = operation.get("requestBody", {})
            if operation.get("operationId") in BY_NAME and "application/json" in body.get("content", {}):
                yield method, operation["operationId"], body


def _ask(world: Installation, route: Route, content: bytes | None) -> AsgiResponse:
    things = things_of(world, route)
    asked = {name: part for name, part in route.good.asked(route.path, things).items() if name in ("path", "query")}
    headers = as_whom(world, route, things)
    if content is not None:
        headers["Content-Type"] = "application/json"
    return world.call(route.method, headers=headers, content=content, **asked)


@pytest.mark.parametrize("noun", ROUTES)
def test_missing_body_is_reported_with_path_and_remedy(
    world: Installation, isolation: RequestIsolation, noun: str
) -> None:
    needs = {name: body["required"] is not False for _, name, body in _bodies(world)}
    for route in (each for each in ROUTES[noun] if each.name in needs):
        for content in _NO_OBJECTS:
            with isolation.open():
                answer = _ask(world, route, content)
            where = (route.name, content, answer.text)
            if content in (None, b"null") and not needs[route.name]:
                # The body is `{}` there.
                assert answer.status != 422 or answer.json.get("place") != "body", where
                continue
            if answer.status in (401, 403):
                # The request for the user's password takes precedence.
                continue
            assert answer.status == 422, where
            told = answer.json.get("mistakes") or [answer.json]
            assert [each.get("place") for each in told] == ["body"], where
            assert all(each["detail"] and each["remedy"] for each in told), where


def _patches(world: Installation) -> list[tuple[Route, dict[str, Any]]]:
    return [
        (BY_NAME[name], _schema(world, body["content"]["application/json"]["schema"]))
        for method, name, body in _bodies(world)
        if method == "patch"
    ]


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
    for route, schema in _patches(world):
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
