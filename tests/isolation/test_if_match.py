"""What changes a thing that is shown by itself compares it with `If-Match`: each of these routes, from the table."""

from typing import Any

import pytest

from api.access import Mine
from tests.isolation.book import Good
from tests.isolation.calls import Answer
from tests.isolation.fed import things_of
from tests.isolation.hall import Hall
from tests.isolation.installation import BY_NAME, ROUTES, Installation, Route

_CHANGES = {"PUT", "PATCH", "DELETE"}
# What is changed there is shown nowhere by itself.
_UNCOMPARED = {
    "a secret, which is never shown": {
        *("setEndpointPassphrase", "removeEndpointPassphrase"),
        *("setEndpointGroupPassphrase", "removeEndpointGroupPassphrase"),
    },
    "adds to what others have told": {"setEndpointPosture"},
    "ends what is only listed": {
        *("revokeTenantToken", "revokeMspToken", "revokePlatformToken"),
        *("endTenantSignOnSession", "endMspSignOnSession", "endPersonSessions", "resetPersonFactors"),
    },
}
# Those that have no GET of their path, and what is shown of them where.
_SHOWN_BY = {
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


@pytest.mark.parametrize("noun", [noun for noun, routes in ROUTES.items() if set(routes) & set(_compared())])
def test_change_of_another_state_is_not_made(world: Installation, hall: Hall, noun: str) -> None:
    for route in (each for each in ROUTES[noun] if each in _compared()):
        things = things_of(world, route)

        def change(tag: str, route: Route = route, things: dict[str, Any] = things) -> Answer:
            with hall.passing():
                headers = _headers(world, **({"If-Match": tag} if tag else {}))
                return world.call(route.method, headers=headers, **route.good.asked(route.path, things))

        with hall.open():
            refused = change('"other"')
            assert (refused.status, refused.json.get("code")) == (412, "has-changed"), (route, refused.text)
            if (shown := _shown(world, route, things)) is not None:
                assert "etag" in shown.headers, (route, shown.text)
                answer = change(shown.headers["etag"])
                assert answer.status == change("").status != 412, (route, answer.text)
