"""Every route of the API, as each role, at each place: generated from the route table."""

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from api.access import Requires
from api.main import V1
from nac.accounts.permissions import Level
from tests.isolation.conftest import World, may

# What anybody may ask.
OPEN = {"/healthz", "/readyz"}
_ID = UUID(int=1)
_PLACE = {Level.TENANT: "tenant", Level.MSP: "msp"}


class Route(NamedTuple):
    method: str
    path: str
    requires: Requires


def _required(dependant: Dependant) -> Iterator[Requires]:
    if isinstance(dependant.call, Requires):
        yield dependant.call
    for part in dependant.dependencies:
        yield from _required(part)


def routes(app: FastAPI) -> list[Route]:
    found = []
    for router in V1:
        for route in router.routes:
            assert isinstance(route, APIRoute)
            requires = list(_required(route.dependant))
            assert len(requires) == 1, f"{route.path} names no permission, or several"
            found += [Route(method, f"/v1{route.path}", requires[0]) for method in sorted(route.methods)]
    served = {
        (method.upper(), path)
        for path, operations in app.openapi()["paths"].items()
        for method in operations
        if path not in OPEN
    }
    assert {(route.method, route.path) for route in found} == served
    return found


def test_every_route_names_one_permission_at_its_level(world: World) -> None:
    found = routes(world.app)
    assert len(found) > 10
    for route in found:
        name = _PLACE.get(route.requires.level)
        assert (f"{{{name}}}" in route.path) == (name is not None), route
        assert route.requires.permission.level <= route.requires.level, route


def test_each_role_reaches_its_own_and_nothing_else(world: World) -> None:
    checked = 0
    for route in routes(world.app):
        level = route.requires.level
        for at in world.of_level(level):
            path = _path(route.path, at.slug)
            for (place, role), token in world.tokens.items():
                answer = world.request(token, route.method, path, **_body(route))
                checked += 1
                told = (route.method, path, place.slug, role, answer.status_code, answer.text)
                missing = f"{_PLACE.get(level)}-not-found"
                if may(place, role, route.requires.permission, at):
                    assert answer.status_code < 500, told
                    assert answer.status_code not in (401, 403, 405), told
                    assert missing not in answer.text, told
                elif place.covers(at) or level is Level.PLATFORM:
                    assert answer.status_code == 403, told
                else:
                    unknown = world.request(token, route.method, _path(route.path, "nothing"), **_body(route))
                    assert (answer.status_code, answer.content) == (404, unknown.content), told
                    assert missing in answer.text, told
    assert checked > 500


def test_without_a_good_token_nothing_is_answered(world: World) -> None:
    for route in routes(world.app):
        path = _path(route.path, "acme-1" if route.requires.level is Level.TENANT else "acme")
        for headers in (
            {},
            {"Authorization": "Bearer x"},
            {"Authorization": f"Bearer admit_{'a' * 16}_{'a' * 26}"},
            {"Authorization": "Basic YTpi"},
        ):
            answer = world.client.request(route.method, path, headers=headers, **_body(route))
            assert answer.status_code == 401, (route, headers, answer.text)
            assert answer.headers["www-authenticate"].startswith("Bearer")


def _path(path: str, slug: str) -> str:
    return path.format(
        tenant=slug,
        msp=slug,
        mac="00:00:5e:00:53:01",
        token_id=_ID,
        member_id=_ID,
        slug="own",
        site="main",
        **dict.fromkeys(("session", "request", "redecision", "export", "hold"), 1),
        **dict.fromkeys(("decision", "record"), "1767225600000000-1"),
        file="manifest.json",
        feed="siem",
        log="auth",
    )


def _body(route: Route) -> dict[str, object]:
    """Nothing that could be done: what is asked is whether one may."""
    return {"json": {}} if route.method in ("POST", "PATCH", "PUT") else {}
