"""A body with an unknown reference is invalid (422 with the field path). Only unknown things in the path return 404."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.isolation.asgi_caller import AsgiResponse
from tests.isolation.fuzz_inputs import as_whom, things_of
from tests.isolation.installation import BY_NAME, ROUTES, Installation, Route
from tests.isolation.noun import Operation
from tests.isolation.request_isolation import RequestIsolation
from tests.isolation.tenant_contents import nonexistent_values

_MAC, _ID = "00:00:5e:00:63:01", "0190b6c2-7c11-7d52-9a43-0c5d8f2e6b10"
_DOCUMENT = {"rules": [], "fallback": {"verdict": "deny"}}
_BULK = {"operation": "put", "items": [{"mac": _MAC, "groups": ["nobody"]}], "macs": None, "groups": None}
# References missing in the requests of the book: body parts that override it, and the reported path.
_MORE: dict[str, tuple[tuple[dict[str, Any], str], ...]] = {
    "createTenantMember": (({"tenants": ["nobody"]}, "tenants"),),
    "createMspMember": (({"tenants": ["nobody"]}, "tenants"),),
    "updateMspMember": (({"tenants": ["nobody"]}, "tenants"), ({"role": "nobody"}, "role")),
    "prepareMove": (({"cell": "nobody"}, "cell"),),
    "createTenant": (({"msp": _ID}, "msp"),),
    "startRollout": (({"version": 999}, "version"),),
    "revealRadiusSecret": (({"nas": "nobody"}, "nas"), ({"snippet": "nobody"}, "snippet")),
    "startSecretRotation": (({"nas": "nobody"}, "nas"),),
    "finishSecretRotation": (({"nas": "nobody"}, "nas"),),
    "cancelSecretRotation": (({"nas": "nobody"}, "nas"),),
    "rollBackPolicy": (({"version": 999}, "version"),),
    "testPolicy": (({"version": 999}, "version"),),
    "replayPolicy": (({"version": 999}, "version"), ({"document": _DOCUMENT, "site": "nobody"}, "site")),
    "simulatePolicy": (({"request": None, "decision": "1767225600000000-1"}, "decision"),),
    "previewRedecision": (({"version": 999}, "version"),),
    "issueCertificate": (({"endpoint": None, "user": "nobody"}, "user"), ({"profile": "nobody"}, "profile")),
    "revokeCertificatesOfHolder": (({"endpoint": None, "user": "nobody"}, "user"),),
    "createEnrolmentLink": (
        ({"endpoint_mac": None, "user_name": "nobody"}, "user_name"),
        ({"profile": "x"}, "profile"),
    ),
    "createEnrolmentSecret": (({"endpoint_mac": None, "user_name": "nobody"}, "user_name"),),
    "updateScepWebhook": (({"profile": "nobody"}, "profile"),),
    "createCoaRequests": (({"session": 987_654_321}, "session"), ({"nas": "nobody"}, "nas")),
    "updateEndpointsInBulk": (
        ({"operation": "set-groups", "groups": ["nobody"]}, "groups"),
        (_BULK, "items[0]"),
    ),
    "updatePool": (({"reserved": {_MAC: "10.250.0.1"}}, "reserved"),),
    "updateTenantSignInRules": (({"local_account": "nobody@nobody.example"}, "local_account"),),
}
# Names in bodies that need not exist yet, or whose absence is a valid result.
_FREE = {
    ("simulatePolicy", "mac"): 200,
    ("updatePool", "mac"): 200,
    ("createTemplateVersion", "group"): 201,
    ("importTenant", "tenant_file"): 202,
    # Its key exists already.
    ("importRootKey", "root_key"): 409,
    # A live session, which may be missing.
    ("createCoaRequests", "mac"): 409,
    **dict.fromkeys((("updateUsersInBulk", "user_name"), ("updateTenantSignOn", "domain")), 200),
    **dict.fromkeys((("updateMspSignOn", "domain"), ("issueServerCertificate", "domain")), 0),
}
_NO_REFERENCES = {"soon", "lately", "version"}


def _send(world: Installation, isolation: RequestIsolation, route: Route, asked: Mapping[str, Any]) -> AsgiResponse:
    with isolation.open():
        return world.call(route.method, headers=as_whom(world, route, things_of(world, route)), **asked)


def _places(answer: AsgiResponse) -> Iterator[str]:
    told = answer.json
    yield told.get("place", "")
    yield from (each.get("place", "") for each in told.get("mistakes", ()))


def _tries(world: Installation, route: Route) -> Iterator[tuple[str, dict[str, Any]]]:
    """For each thing named in the body of the book, yield the request with an unknown id instead."""
    things = things_of(world, route)
    for name in Operation(body=route.good.body, content=route.good.content).names(""):
        if name.startswith("new_") or name in _NO_REFERENCES or name not in nonexistent_values():
            continue
        path = Operation(path=route.good.path).asked(route.path, things)
        yield name, route.good.asked(route.path, {**things, name: nonexistent_values()[name]}) | path


@pytest.mark.parametrize("noun", ROUTES)
def test_unknown_thing_in_a_body_is_invalid_input(world: Installation, isolation: RequestIsolation, noun: str) -> None:
    for route in ROUTES[noun]:
        for name, asked in _tries(world, route):
            answer = _send(world, isolation, route, asked)
            if (route.name, name) in _FREE:
                assert answer.status in (_FREE[route.name, name], 200, 201), (route.name, name, answer.text)
                continue
            assert answer.status == 422, (route.name, name, answer.text)
            assert any(_is_field(world, route, place) for place in _places(answer)), (route.name, name, answer.text)


def _is_field(world: Installation, route: Route, place: str) -> bool:
    """Return whether the path is a field of the request's body, or a line of a file."""
    document = world.app.openapi()
    content = world.described(route)["requestBody"]["content"]
    if "application/json" not in content:
        return place.startswith("line ")
    names = set(_fields(document, content["application/json"]["schema"]))
    # Paths in a policy document follow its own schema.
    return place.partition("[")[0].partition(".")[0] in names | {"rules"}


def _fields(document: dict[str, Any], schema: dict[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for way in schema.get("oneOf", ()):
        yield from _fields(document, way)
    yield from schema.get("properties", ())
    # A list or an object within it.
    yield from (inner for part in schema.get("properties", {}).values() for inner in _inner(document, part))


def _inner(document: dict[str, Any], part: dict[str, Any]) -> Iterator[str]:
    if "$ref" in part.get("items", {}):
        yield from _fields(document, part["items"])


@pytest.mark.parametrize("name", _MORE)
def test_other_unknown_references_name_their_field(world: Installation, isolation: RequestIsolation, name: str) -> None:
    route = BY_NAME[name]
    for parts, place in _MORE[name]:
        asked = route.good.asked(route.path, things_of(world, route))
        body = {**(asked.get("body") or {}), **parts}
        asked["body"] = {field: value for field, value in body.items() if value is not None}
        answer = _send(world, isolation, route, asked)
        assert answer.status == 422, (parts, answer.text)
        assert any(each.startswith(place) for each in _places(answer)), (parts, answer.text)


def test_unknown_thing_in_the_path_is_not_found(world: Installation, isolation: RequestIsolation) -> None:
    """The near miss: the same requests with an unknown thing in the path."""
    tried = 0
    for route in BY_NAME.values():
        names = [route.good.path.get(each, each) for each in route.good.path_names(route.path)]
        things = things_of(world, route)
        if route.good.body is None or not names or names[-1] in ("tenant", "msp"):
            continue
        if things[names[-1]] == nonexistent_values()[names[-1]]:
            # A log, a version or a cell, whose names are the same for all owners.
            continue
        asked = route.good.asked(route.path, things)
        path = Operation(path=route.good.path).asked(route.path, {**things, names[-1]: nonexistent_values()[names[-1]]})
        answer = _send(world, isolation, route, asked | path)
        assert answer.status == 404, (route.name, answer.text)
        tried += 1
    assert tried > 20
