"""What changes a thing that is shown by itself compares it with `If-Match`: each of these routes, from the table."""

from typing import Any

import pytest

from api.access import Anyone, Mine
from tests.isolation.book import Good
from tests.isolation.calls import Answer
from tests.isolation.fed import things_of
from tests.isolation.hall import Hall
from tests.isolation.installation import BY_NAME, ROUTES, Installation, Route

_CHANGES = {"PUT", "PATCH", "DELETE"}
# What is changed there is shown nowhere by itself.
_UNCOMPARED = {
    "adds to what others have told": {"setEndpointPosture"},
    "ends what is only listed": {
        *("revokeTenantToken", "revokeMspToken", "revokePlatformToken"),
        *("endTenantSignOnSession", "endMspSignOnSession", "endPersonSessions", "resetPersonFactors"),
    },
}
# Those that have no GET of their path, and what shows them; "" where they are only listed.
_SHOWN_BY = {
    **dict.fromkeys(("setEndpointPassphrase", "removeEndpointPassphrase"), "getEndpoint"),
    **dict.fromkeys(("setEndpointGroupPassphrase", "removeEndpointGroupPassphrase"), "getEndpointGroup"),
    "changeUserPassword": "getUser",
    "deleteTenant": "getTenant",
    "suspendTenant": "getTenant",
    "resumeTenant": "getTenant",
    "restoreTenant": "getTenant",
    "suspendMsp": "getMsp",
    "resumeMsp": "getMsp",
    "resetRetentionLimits": "getRetentionLimits",
    "followTemplate": "",
    "releaseFromTemplate": "",
}


def _compared() -> list[Route]:
    own = {name for names in _UNCOMPARED.values() for name in names}
    routes = [route for route in BY_NAME.values() if route.method in _CHANGES and not isinstance(route.asks, Mine)]
    return [route for route in routes if route.name not in own] + [
        BY_NAME[name] for name in _SHOWN_BY if BY_NAME[name].method == "POST"
    ]


def _headers(world: Installation, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {world.tokens['platform', 'platform-operator']}", **more}


def _shown(world: Installation, route: Route, things: dict[str, Any]) -> Answer | None:
    """None where it is only listed."""
    asked = route.good.asked(route.path, things)
    query = {name: value for name, value in asked.get("query", {}).items() if name == "site"}
    path = asked["path"]
    if route.name in _SHOWN_BY:
        if not (reader := _SHOWN_BY[route.name]):
            return None
        path = Good(path=route.good.path).asked(BY_NAME[reader].path, things)["path"]
    return world.call("GET", path, headers=_headers(world), query=query)


def test_what_is_compared_is_told(world: Installation) -> None:
    told = {
        operation["operationId"]
        for operations in world.app.openapi()["paths"].values()
        for operation in operations.values()
        if any(parameter["name"] == "If-Match" for parameter in operation.get("parameters", ()))
    }
    assert {route.name for route in _compared()} == told


def test_what_is_told_to_have_a_state_shows_it(world: Installation, hall: Hall) -> None:
    wrong, seen = [], 0
    with hall.open():
        for operations in world.app.openapi()["paths"].values():
            route = BY_NAME.get(operations.get("get", {}).get("operationId"))
            if route is None or isinstance(route.asks, Mine | Anyone):
                continue
            told = "ETag" in operations["get"]["responses"].get("200", {}).get("headers", {})
            asked = route.good.asked(route.path, things_of(world, route))
            with hall.passing():
                answer = world.call("GET", headers=_headers(world), **asked)
            seen += answer.status == 200
            # Files have one as files do.
            if (
                answer.status == 200
                and told != ("etag" in answer.headers)
                and "content-disposition" not in answer.headers
            ):
                wrong.append((route.name, told))
    assert not wrong
    assert seen > 100


@pytest.mark.parametrize("noun", [noun for noun, routes in ROUTES.items() if set(routes) & set(_compared())])
def test_change_of_another_state_is_not_made(world: Installation, hall: Hall, noun: str) -> None:
    for route in (each for each in ROUTES[noun] if each in _compared()):
        things = things_of(world, route)
        asked = route.good.asked(route.path, things)
        with hall.open():
            with hall.passing():
                refused = world.call(route.method, headers=_headers(world, **{"If-Match": '"other"'}), **asked)
            assert (refused.status, refused.json.get("code")) == (412, "has-changed"), (route, refused.text)
            with hall.passing():
                plain = world.call(route.method, headers=_headers(world), **asked)
            if (shown := _shown(world, route, things)) is None:
                continue
            tag = shown.headers["etag"]
            answer = world.call(route.method, headers=_headers(world, **{"If-Match": tag}), **asked)
            assert answer.status == plain.status != 412, (route, answer.text)
            if answer.status == 200 and route.method != "DELETE":
                after = _shown(world, route, things)
                assert after is not None
                # What cells and the worker see is behind the dash.
                states = [each.headers["etag"].strip('"').partition("-")[0] for each in (answer, after)]
                assert states[0] == states[1], (route, answer.text, after.text)
