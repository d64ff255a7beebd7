"""HEAD of each GET route: the same response without the body."""

import pytest

from tests.isolation.fuzz_inputs import as_whom, things_of
from tests.isolation.installation import ROUTES, Installation
from tests.isolation.request_isolation import RequestIsolation

# A protocol demands GET here, and it changes state.
_GET_ONLY = {"finishSignOn"}
# The other server does not run; its error message varies.
_ASKS_OTHERS = {"startSignOn"}


@pytest.mark.parametrize("noun", ROUTES)
def test_head_equals_get_without_the_body(world: Installation, hall: RequestIsolation, noun: str) -> None:
    for route in (each for each in ROUTES[noun] if each.method == "GET" and each.name not in _ASKS_OTHERS):
        things = things_of(world, route)
        asked = route.good.asked(route.path, things)
        with hall.open():
            got, head = (
                world.call(method, headers=as_whom(world, route, things), **asked) for method in ("GET", "HEAD")
            )
        assert head.body == b"", route
        if route.name in _GET_ONLY:
            assert (head.status, head.headers["allow"]) == (405, "GET"), route
            continue
        assert head.status == got.status, route
        assert head.headers.keys() == got.headers.keys(), route
        assert head.headers.get("etag") == got.headers.get("etag"), route
