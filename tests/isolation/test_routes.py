"""Every route of the API, as each role, at each place: generated from the route table."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

import pytest
from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from api.access import Anyone, Mine, Requires
from api.main import V1
from nac.accounts.permissions import Level
from tests.isolation.conftest import World, may

# What anybody may ask, beside routes that say so themselves.
OPEN = {"/healthz", "/readyz"}
_PLACE = {Level.TENANT: "tenant", Level.MSP: "msp"}
# Of paths: things that are nobody's. What is not here is an id.
_VALUES = {"mac": "00:00:5e:00:53:01", "slug": "own", "site": "main"}
_NOBODYS = str(UUID(int=1))

Asked = Requires | Mine | Anyone


class Route(NamedTuple):
    method: str
    path: str
    asks: Asked


def _asks(dependant: Dependant) -> Iterator[Asked]:
    if isinstance(dependant.call, Asked):
        yield dependant.call
    for part in dependant.dependencies:
        yield from _asks(part)


def _routes_of(router: APIRouter) -> list[Route]:
    found = []
    for route in router.routes:
        assert isinstance(route, APIRoute)
        asks = list(_asks(route.dependant))
        assert len(asks) == 1, f"{route.path} names no permission, or several"
        found += [Route(method, f"/v1{route.path}", asks[0]) for method in sorted(route.methods)]
    return found


ROUTES = {",".join(map(str, router.tags)): _routes_of(router) for router in V1}


def _with_permission(routes: list[Route]) -> list[tuple[Route, Requires]]:
    return [(route, route.asks) for route in routes if isinstance(route.asks, Requires)]


def test_every_route_is_in_the_table(world: World) -> None:
    served = {
        (method.upper(), path)
        for path, operations in world.app.openapi()["paths"].items()
        for method in operations
        if path not in OPEN
    }
    assert {(route.method, route.path) for routes in ROUTES.values() for route in routes} == served
    assert len(ROUTES) == len(V1), "two nouns have the same tags"


@pytest.mark.parametrize("noun", ROUTES)
def test_every_route_names_one_permission_at_its_level(noun: str) -> None:
    assert ROUTES[noun]
    for route in ROUTES[noun]:
        if isinstance(route.asks, Anyone):
            assert route.asks.reason, route
        if not isinstance(route.asks, Requires):
            continue
        name = _PLACE.get(route.asks.level)
        assert (f"{{{name}}}" in route.path) == (name is not None), route
        assert route.asks.permission.level <= route.asks.level, route


@pytest.mark.parametrize("noun", ROUTES)
def test_each_role_reaches_its_own_and_nothing_else(world: World, noun: str) -> None:
    for route, asks in _with_permission(ROUTES[noun]):
        missing = f"{_PLACE.get(asks.level)}-not-found"
        unknown = {
            token: world.request(token, route.method, _path(route.path, "nothing"), **_body(route))
            for token in world.tokens.values()
        }
        seen: dict[bool, int] = defaultdict(int)
        for at in world.of_level(asks.level):
            path = _path(route.path, at.slug)
            for (place, role), token in world.tokens.items():
                answer = world.request(token, route.method, path, **_body(route))
                told = (route.method, path, place.slug, role, answer.status_code, answer.text)
                allowed = may(place, role, asks.permission, at)
                seen[allowed] += 1
                if allowed:
                    assert answer.status_code < 500, told
                    assert answer.status_code not in (401, 403, 405), told
                    assert missing not in answer.text, told
                elif place.covers(at) or asks.level is Level.PLATFORM:
                    assert answer.status_code == 403, told
                else:
                    assert (answer.status_code, answer.content) == (404, unknown[token].content), told
                    assert missing in answer.text, told
        assert all(seen[allowed] for allowed in (True, False)), route


@pytest.mark.parametrize("noun", ROUTES)
def test_without_a_good_token_nothing_is_answered(world: World, noun: str) -> None:
    for route in ROUTES[noun]:
        if isinstance(route.asks, Anyone):
            continue
        path = _path(route.path, "acme-1" if "{tenant}" in route.path else "acme")
        for headers in _BAD:
            answer = world.client.request(route.method, path, headers=headers, **_body(route))
            assert answer.status_code == 401, (route, headers, answer.text)
            assert answer.headers["www-authenticate"].startswith("Bearer")


_BAD = (
    {},
    {"Authorization": "Bearer x"},
    {"Authorization": f"Bearer admit_{'a' * 16}_{'a' * 26}"},
    {"Authorization": "Basic YTpi"},
)


class _Values(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return _NOBODYS


def _path(path: str, slug: str) -> str:
    return path.format_map(_Values(_VALUES, tenant=slug, msp=slug))


def _body(route: Route) -> Mapping[str, object]:
    """Nothing that could be done: what is asked is whether one may."""
    return {"json": {}} if route.method in ("POST", "PATCH", "PUT") else {}
