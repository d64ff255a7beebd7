"""Valid requests at the caller's own place that name, one at a time, something of another tenant: in path, query and
body. They return the same as for unknown things. Without the service layer's filters they still reach nothing."""

from typing import Any

import pytest

from nac.kit.permissions import PermissionLevel
from tests.isolation.asgi_caller import AsgiResponse
from tests.isolation.installation import BY_NAME, ROUTES, Installation, OwnerPlace, Route
from tests.isolation.request_isolation import RequestIsolation
from tests.isolation.scope_bypass import seen_of
from tests.isolation.tenant_contents import nonexistent_values

# The caller, and the owner of the named thing.
PAIRS = {
    PermissionLevel.TENANT: ("acme-1", "tenant-admin", "bolt-1"),
    PermissionLevel.MSP: ("acme", "msp-admin", "bolt"),
}
# Slugs of tenants and MSPs are global names.
ONE_OF_ALL = {("createTenant", "new_slug"), ("createTenantOfMsp", "new_slug")}
# The route tests cover whose place it is.
_PLACES = {"tenant": PermissionLevel.TENANT, "msp": PermissionLevel.MSP}


def _tries(world: Installation, noun: str) -> list[tuple[Route, str]]:
    return [
        (route, name)
        for route in ROUTES[noun]
        if route.level in PAIRS
        for name in route.good.names(route.path)
        if _PLACES.get(name) is not route.level and len({world.things_of(slug).get(name) for slug in _pair(route)}) > 1
    ]


def _pair(route: Route) -> tuple[str, str]:
    asker, _, other = PAIRS[route.level]  # type: ignore[index]
    return asker, other


def _ask(
    world: Installation, isolation: RequestIsolation, route: Route, things: dict[str, Any]
) -> tuple[AsgiResponse, dict[str, set[str]]]:
    slug, role, _ = PAIRS[route.level]  # type: ignore[index]
    asker: OwnerPlace = world.places[slug]
    own = {"", *(str(place.id) for place in world.places.values() if asker.covers(place))}
    with isolation.open():
        is_stripped, isolation.is_stripped = isolation.strips, isolation.strips
        try:
            answer = world.ask(route, things, world.tokens[slug, role])
        except Exception:
            assert is_stripped
            answer = AsgiResponse(500, {}, b"")
        isolation.is_stripped = False
        return answer, {table: owners - own for table, owners in isolation.changed().items() if owners - own}


def _changed_owners(changed: dict[str, set[str]]) -> set[str]:
    return {owner for owners in changed.values() for owner in owners}


def _known_ids(world: Installation) -> set[str]:
    return {str(place.id) for place in world.places.values()}


def _tenant_lists() -> list[Route]:
    return [each for each in BY_NAME.values() if each.level is PermissionLevel.TENANT and each.name.startswith("list")]


@pytest.mark.parametrize("noun", ROUTES)
def test_foreign_things_are_reported_as_unknown(world: Installation, isolation: RequestIsolation, noun: str) -> None:
    for route, name in _tries(world, noun):
        slug, other = _pair(route)
        mine, theirs, no_ones = world.things_of(slug), world.things_of(other), nonexistent_values()
        told = {}
        for of, things in (("theirs", theirs), ("no one's", no_ones)):
            given = mine | {name: things[name]}
            answer, changed = _ask(world, isolation, route, given)
            where = (route.name, name, of, answer.status, answer.text[:500], changed)
            assert not _changed_owners(changed) & _known_ids(world), where
            assert not seen_of(other, answer, route.good.asked(route.path, given)), where
            told[of] = (answer.status, answer.text.replace(str(things[name]), "") if answer.status >= 400 else "")
        if (route.name, name) not in ONE_OF_ALL:
            assert told["theirs"] == told["no one's"], (route.name, name)


@pytest.mark.parametrize("noun", ROUTES)
def test_unfiltered_statements_reach_no_foreign_rows(
    world: Installation, isolation: RequestIsolation, noun: str
) -> None:
    with isolation.stripping():
        for route in ROUTES[noun]:
            if route.level not in PAIRS:
                continue
            slug, other = _pair(route)
            mine, theirs = world.things_of(slug), world.things_of(other)
            names = [name for each, name in _tries(world, noun) if each is route]
            for given in (mine, *(mine | {name: theirs[name]} for name in names)):
                answer, changed = _ask(world, isolation, route, given)
                where = (route.name, answer.status, answer.text[:500], changed)
                assert not _changed_owners(changed) & _known_ids(world), where
                assert not seen_of(other, answer, route.good.asked(route.path, given)), where


def test_lost_filters_are_noticed_without_row_security(
    world: Installation, isolation_without_row_security: RequestIsolation
) -> None:
    found = set()
    with isolation_without_row_security.stripping():
        for route in _tenant_lists():
            slug, other = _pair(route)
            answer, _ = _ask(world, isolation_without_row_security, route, world.things_of(slug))
            if seen_of(other, answer, ""):
                found.add(route.name)
    assert {"listSites", "listEndpoints", "listPolicies", "listNases", "listFeeds"} <= found


def test_foreign_cursors_reveal_nothing(world: Installation, isolation: RequestIsolation) -> None:
    found = 0
    for route in _tenant_lists():
        with isolation.open():
            things = world.things_of("bolt-1")
            asked = route.good.asked(route.path, things) | {"query": {"limit": 1}}
            token = world.tokens["bolt-1", "tenant-admin"]
            page = world.call(route.method, headers={"Authorization": f"Bearer {token}"}, **asked)
            after = page.json.get("next") if page.status == 200 else None
            if after is None:
                continue
            found += 1
            asked = route.good.asked(route.path, world.things_of("acme-1")) | {"query": {"after": after}}
            token = world.tokens["acme-1", "tenant-admin"]
            answer = world.call(route.method, headers={"Authorization": f"Bearer {token}"}, **asked)
            assert answer.status in (200, 422), (route.name, answer.text)
            assert not seen_of("bolt-1", answer, ""), (route.name, answer.text)
    assert found > 5


def test_foreign_idempotency_keys_replay_nothing(world: Installation, isolation: RequestIsolation) -> None:
    route, key = BY_NAME["createSite"], {"Idempotency-Key": "the-same"}
    with isolation.open():
        answers = [
            world.ask(route, world.things_of(slug), world.tokens[slug, "tenant-admin"], **key)
            for slug in ("bolt-1", "acme-1", "acme-1")
        ]
    assert [answer.status for answer in answers] == [201, 201, 201], [answer.text for answer in answers]
    assert ["idempotency-replayed" in answer.headers for answer in answers] == [False, False, True]
    assert not seen_of("bolt-1", answers[1], "")
