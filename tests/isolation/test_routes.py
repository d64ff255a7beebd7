"""Every API route, as each role, at each place, generated from the route table."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pytest

from api.access import AllowsAnyone, OperatesMsp, RequiresPermission
from api.v1.routers import V1
from nac.kit.permissions import PermissionLevel
from tests.isolation.asgi_caller import AsgiResponse
from tests.isolation.installation import BY_NAME, ROUTES, Installation, OwnerPlace, Route, may
from tests.isolation.request_isolation import RequestIsolation
from tests.isolation.tenant_contents import nonexistent_values

# Public routes, in addition to those marked public.
OPEN = {"/healthz", "/readyz"}
_PLACE = {PermissionLevel.TENANT: "tenant", PermissionLevel.MSP: "msp"}


def test_every_route_is_in_the_table(world: Installation) -> None:
    served = {
        (method.upper(), path)
        for path, operations in world.app.openapi()["paths"].items()
        for method in operations
        if path not in OPEN
    }
    assert {(route.method, f"/v1{route.path}") for routes in ROUTES.values() for route in routes} == served
    assert len(ROUTES) == len(V1), "two nouns have the same tags"


@pytest.mark.parametrize("noun", ROUTES)
def test_every_route_names_one_permission_at_its_level(noun: str) -> None:
    assert ROUTES[noun]
    for route in ROUTES[noun]:
        if isinstance(route.asks, AllowsAnyone):
            assert route.asks.reason, route
        if not isinstance(route.asks, RequiresPermission):
            continue
        name = _PLACE.get(route.asks.level)
        in_path = name is not None and not route.asks.in_body
        assert (f"{{{name}}}" in route.path) == in_path, route
        if isinstance(route.asks, OperatesMsp):
            # For platform operators, about the MSP in the path.
            assert route.asks.permission.level is PermissionLevel.PLATFORM, route
        else:
            assert route.asks.permission.level <= route.asks.level, route


@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("noun", ROUTES)
def test_each_role_reaches_only_its_own_places(
    world: Installation, isolation: RequestIsolation, noun: str, everywhere: bool
) -> None:
    """Requests name unknown things, because only permission is tested. A short run tries each route at a varying place
    with a sample of roles; a long run tries all."""
    for number, route in enumerate(ROUTES[noun]):
        if isinstance(route.asks, RequiresPermission):
            places = world.of_level(route.asks.level)
            with isolation.open():
                chosen = places if everywhere else [places[number % len(places)]]
                _reach(world, route, route.asks, chosen, None if everywhere else number)


def _reach(
    world: Installation, route: Route, asks: RequiresPermission, places: Sequence[OwnerPlace], turn: int | None
) -> None:
    """`turn` selects one role of a place. None: all roles."""
    missing = f"{_PLACE.get(asks.level)}-not-found"
    seen: dict[bool, int] = defaultdict(int)
    unknown: dict[str, AsgiResponse] = {}
    for at in places:
        for (slug, role), token in _callers(world, at, asks, turn):
            place = world.places[slug]
            answer = _at(world, route, token, at.slug)
            told = (route.method, route.path, at.slug, slug, role, answer.status, answer.text)
            allowed = may(place, role, asks.permission, at)
            seen[allowed] += 1
            if allowed:
                assert answer.status < 500 or answer.status == route.good.status, told
                assert answer.status not in (401, 403, 405), told
                assert missing not in answer.text, told
            elif place.covers(at) or asks.level is PermissionLevel.PLATFORM:
                assert answer.status == 403, told
            else:
                # All its roles get the same response.
                if slug not in unknown:
                    unknown[slug] = _at(world, route, token, "nothing")
                assert (answer.status, answer.body) == (422 if asks.in_body else 404, unknown[slug].body), told
                assert missing in answer.text, told
    assert all(seen[allowed] for allowed in (True, False)), route


def _callers(
    world: Installation, at: OwnerPlace, asks: RequiresPermission, turn: int | None
) -> Iterator[tuple[tuple[str, str], str]]:
    for slug, place in world.places.items():
        theirs = [(who, token) for who, token in world.tokens.items() if who[0] == slug]
        if turn is None:
            yield from theirs
            continue
        known = place.covers(at) or asks.level is PermissionLevel.PLATFORM
        refused = [each for each in theirs if known and not may(place, each[0][1], asks.permission, at)]
        others = [each for each in theirs if each not in refused]
        yield from refused + others[turn % max(1, len(others)) :][:1]


def _at(world: Installation, route: Route, token: str, slug: str) -> AsgiResponse:
    # A tenant with this slug exists already.
    return world.ask(route, nonexistent_values() | {"tenant": slug, "msp": slug, "new_slug": "acme-1"}, token)


def test_listed_msps_can_be_read_individually(world: Installation, isolation: RequestIsolation) -> None:
    listed, shown = BY_NAME["listMsps"], BY_NAME["getMsp"]
    found = set()
    with isolation.open():
        everyone = world.ask(listed, {}, world.tokens["platform", "platform-operator"]).json["items"]
        for (slug, role), token in world.tokens.items():
            items = world.ask(listed, {}, token).json["items"]
            own = [each for each in everyone if world.ask(shown, {"msp": each["slug"]}, token).status == 200]
            assert items == own, (slug, role)
            found.add(len(items))
    assert found == {0, 1, len(everyone)}


@pytest.mark.parametrize("noun", ROUTES)
def test_request_without_a_valid_token_is_rejected(world: Installation, isolation: RequestIsolation, noun: str) -> None:
    for route in ROUTES[noun]:
        if isinstance(route.asks, AllowsAnyone):
            continue
        asked = route.good.asked(route.path, world.things_of("acme") | world.things_of("acme-1"))
        for headers in _BAD:
            with isolation.open():
                answer = world.call(route.method, headers=headers, **asked)
            assert answer.status == 401, (route, headers, answer.text)
            assert answer.headers["www-authenticate"].startswith("Bearer")


_BAD = (
    {},
    {"Authorization": "Bearer x"},
    {"Authorization": f"Bearer admit_{'a' * 16}_{'a' * 26}"},
    {"Authorization": "Basic YTpi"},
)
