"""Changes of things that have their own GET compare `If-Match`, for each such route."""

from collections.abc import Iterator
from typing import Any

import pytest

from api.access import AllowsAnyone, RequiresSelf
from tests.isolation.asgi_caller import AsgiResponse
from tests.isolation.fuzz_inputs import as_whom, things_of
from tests.isolation.installation import BY_NAME, ROUTES, Installation, Route
from tests.isolation.noun import Operation
from tests.isolation.request_isolation import RequestIsolation

_CHANGES = {"PUT", "PATCH", "DELETE"}
# Routes that change or act without comparing, with the reason.
_UNCOMPARED = {
    "asks, and changes nothing that is shown": {
        *("testFeed", "testIdentitySource", "previewRetention", "exportRootKey", "refreshAuthority"),
        *("checkPolicy", "replayPolicy", "simulatePolicy", "testPolicy"),
    },
    "makes another, and commits in between: what it was made of is not locked until its end": {"renewCertificate"},
    "makes something of the tenant's or the MSP's own": {
        *("importFile", "importTenant", "issueServerCertificate", "createEnrolmentLink"),
    },
    "adds to what others have told": {"updateEndpointPosture"},
    "ends what is only listed": {
        *("deleteTenantSignOnSession", "deleteMspSignOnSession", "deletePersonSessions", "resetPersonFactors"),
    },
}
# Routes without a GET of their path, and the operation that returns the thing; "" if it is only listed.
_SHOWN_BY = {
    **dict.fromkeys(("updateEndpointPassphrase", "deleteEndpointPassphrase"), "getEndpoint"),
    **dict.fromkeys(("updateEndpointGroupPassphrase", "deleteEndpointGroupPassphrase"), "getEndpointGroup"),
    "updateUserPassword": "getUser",
    "deleteTenant": "getTenant",
    "suspendTenant": "getTenant",
    "resumeTenant": "getTenant",
    "restoreTenant": "getTenant",
    "suspendMsp": "getMsp",
    "resumeMsp": "getMsp",
    "deleteRetentionLimits": "getRetentionLimits",
    "createTemplateVersion": "getTemplate",
    "presentServerCertificate": "getCertificate",
    **dict.fromkeys(("exportRootKey", "deleteRootKey", "importRootKey"), "getAuthority"),
    "followTemplate": "",
    "releaseFromTemplate": "",
}


# Path parameters that name another thing than usual.
_ROOT = {"authority": "root"}


def _operations(world: Installation) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, operations in world.app.openapi()["paths"].items():
        for method, operation in operations.items():
            yield path, method, operation


@pytest.fixture(scope="module")
def compared(world: Installation) -> set[str]:
    """All changing routes, and each POST on or below a thing with its own GET."""
    own = {name for names in _UNCOMPARED.values() for name in names}
    shown = {path for path, method, operation in _operations(world) if method == "get" and _has_state(operation)}
    read = {route.path for route in BY_NAME.values() if route.method == "GET"}
    found = set(_SHOWN_BY)
    for route in BY_NAME.values():
        path = f"/v1{route.path}"
        above = path if route.path in read else path.rpartition("/")[0]
        if not isinstance(route.asks, RequiresSelf) and (
            route.method in _CHANGES or (route.method == "POST" and above in shown)
        ):
            found.add(route.name)
    assert own <= found
    return found - own


def _is_read(path: str) -> bool:
    return any(route.method == "GET" and route.path == path for route in BY_NAME.values())


def _has_state(operation: dict[str, Any]) -> bool:
    return "ETag" in operation["responses"].get("200", {}).get("headers", {})


def _headers(world: Installation, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {world.tokens['platform', 'platform-operator']}", **more}


def _shown(world: Installation, route: Route, things: dict[str, Any]) -> AsgiResponse | None:
    """Return None if it is only listed."""
    asked = route.good.asked(route.path, things)
    query = {name: value for name, value in asked.get("query", {}).items() if name == "site"}
    path = asked["path"]
    if route.name in _SHOWN_BY:
        if not (reader := _SHOWN_BY[route.name]):
            return None
        things = things | _ROOT if "/root/" in path else things
        path = Operation(path=route.good.path).asked(BY_NAME[reader].path, things)["path"]
    elif route.method == "POST" and not _is_read(route.path):
        path = path.rpartition("/")[0]
    return world.call("GET", path, headers=_headers(world), query=query)


def test_compared_changes_are_documented(world: Installation, compared: set[str]) -> None:
    told = {
        operation["operationId"]
        for _, _, operation in _operations(world)
        if any(parameter["name"] == "If-Match" for parameter in operation.get("parameters", ()))
    }
    assert compared == told


def test_documented_etags_are_returned(world: Installation, isolation: RequestIsolation) -> None:
    wrong, seen = [], 0
    with isolation.open():
        for operations in world.app.openapi()["paths"].values():
            route = BY_NAME.get(operations.get("get", {}).get("operationId"))
            if route is None or isinstance(route.asks, RequiresSelf | AllowsAnyone):
                continue
            told = _has_state(operations["get"])
            asked = route.good.asked(route.path, things_of(world, route))
            with isolation.passing():
                answer = world.call("GET", headers=_headers(world), **asked)
            seen += answer.status == 200
            # Files have file ETags.
            if (
                answer.status == 200
                and told != ("etag" in answer.headers)
                and "content-disposition" not in answer.headers
            ):
                wrong.append((route.name, told))
    assert not wrong
    assert seen > 100


@pytest.mark.parametrize("noun", ROUTES)
def test_if_match_is_rejected_where_unsupported(
    world: Installation, isolation: RequestIsolation, compared: set[str], noun: str
) -> None:
    for route in (each for each in ROUTES[noun] if each.method != "GET" and each.name not in compared):
        things = things_of(world, route)
        asked = route.good.asked(route.path, things)
        with isolation.open():
            headers = as_whom(world, route, things)
            with isolation.passing():
                refused = world.call(route.method, headers=headers | {"If-Match": '"other"'}, **asked)
            if refused.status != 412:
                plain = world.call(route.method, headers=headers, **asked)
                assert refused.status == plain.status >= 400, (route, refused.text)
            else:
                assert refused.json["code"] == "cannot-compare", (route, refused.text)


@pytest.mark.parametrize("noun", ROUTES)
def test_change_with_a_stale_etag_is_rejected(
    world: Installation, isolation: RequestIsolation, compared: set[str], noun: str
) -> None:
    for route in (each for each in ROUTES[noun] if each.name in compared):
        things = things_of(world, route)
        asked = route.good.asked(route.path, things)
        with isolation.open():
            with isolation.passing():
                refused = world.call(route.method, headers=_headers(world, **{"If-Match": '"other"'}), **asked)
            assert (refused.status, refused.json.get("code")) == (412, "has-changed"), (route, refused.text)
            with isolation.passing():
                plain = world.call(route.method, headers=_headers(world), **asked)
            if (shown := _shown(world, route, things)) is None or shown.status == 404:
                continue
            tag = shown.headers["etag"]
            answer = world.call(route.method, headers=_headers(world, **{"If-Match": tag}), **asked)
            assert answer.status == plain.status != 412, (route, answer.text)
            if answer.status == 200 and route.method != "DELETE":
                after = _shown(world, route, things)
                assert after is not None
                # Values written by cells and the worker follow the dash.
                states = [each.headers["etag"].strip('"').partition("-")[0] for each in (answer, after)]
                assert states[0] == states[1], (route, answer.text, after.text)
