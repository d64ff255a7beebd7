"""Each route without the service layer's scope: the service gets another owner's place, and only row-level security
protects it. Without row-level security, the same tests notice each leak. Routes about the caller's account do not reach
another user either."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from api.access import RequiresSelf
from api.own_account import OwnAccount
from nac.kit.db import PersonScope, session_scope
from nac.kit.permissions import PermissionLevel
from tests.isolation.asgi_caller import AsgiResponse
from tests.isolation.installation import ROUTES, Installation, Route
from tests.isolation.request_isolation import RequestIsolation
from tests.isolation.scope_bypass import forced, seen_of
from tests.isolation.tenant_contents import nonexistent_values

# The caller, and the owner of the route's place.
PAIRS = {
    PermissionLevel.TENANT: (("acme-1", "bolt-1"), ("acme-1", "acme-2")),
    PermissionLevel.MSP: (("acme", "bolt"), ("acme-1", "acme"), ("bolt-1", "acme")),
    PermissionLevel.PLATFORM: (("acme", "platform"), ("acme-1", "platform")),
}
_ADMINISTRATORS = {PermissionLevel.TENANT: "tenant-admin", PermissionLevel.MSP: "msp-admin"}

# Routes with the same response for every owner.
FOR_ALL = {
    "listPolicyAttributes": "what every policy may ask for",
    "getPolicySchema": "of every policy",
    "checkPolicy": "of the document that was sent",
    "listVendors": "the catalogue",
    "listSnippets": "the catalogue",
    "listRetentionLimits": "the platform's, within which every tenant chooses",
    "getRetentionLimits": "as above",
}
# Only transactions of the platform enter an account or an MSP (nac.kit.db.enter_person, enter_msp).
ENTERING = (
    *("createPerson", "getPerson", "updatePerson", "deletePersonSessions", "resetPersonFactors", "createPasswordLink"),
    "suspendMsp",
)


@dataclass(frozen=True)
class Outcome:
    answer: AsgiResponse | None
    # Names and ids of the other owner's place.
    seen: frozenset[str]
    # The owners of changed rows, other than the caller.
    changed: dict[str, set[str]]

    @property
    def succeeded(self) -> bool:
        return self.answer is not None and self.answer.status < 300

    def __str__(self) -> str:
        answer = f"{self.answer.status} {self.answer.text[:500]}" if self.answer else "an error"
        return f"{sorted(self.seen)} {self.changed} {answer}"


def _run_route(world: Installation, isolation: RequestIsolation, route: Route, pair: tuple[str, str]) -> Outcome:
    asker, other = (world.places.get(slug) for slug in pair)
    assert asker is not None
    assert other is not None
    things = world.things_of(other.slug)
    asked = route.good.asked(route.path, things)
    own = {"", str(asker.id), *(str(place.id) for place in world.places.values() if asker.covers(place))}
    own -= {""} if other.level is PermissionLevel.PLATFORM else set()
    answer: AsgiResponse | None = None
    with isolation.open(), forced(asker.scope):
        try:
            answer = world.ask(route, things, world.tokens[asker.slug, _ADMINISTRATORS[asker.level]])
        except Exception:
            # A service that does not find a required row returns nothing.
            assert isolation.has_row_security
        changed = {table: owners - own for table, owners in isolation.changed().items() if owners - own}
    mark = r"(?:bolt-1|platform\.example)" if other.level is PermissionLevel.PLATFORM else other.slug
    seen = seen_of(mark, answer, asked) if answer else set()
    return Outcome(answer, frozenset(each for each in seen if asker.slug not in each), changed)


def _routes(noun: str) -> list[tuple[Route, Any]]:
    return [(route, PAIRS[route.level]) for route in ROUTES[noun] if route.level is not None]


@pytest.mark.parametrize("every_pair", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("noun", ROUTES)
def test_unscoped_services_get_no_foreign_rows(
    world: Installation,
    isolation: RequestIsolation,
    isolation_without_row_security: RequestIsolation,
    noun: str,
    every_pair: bool,
) -> None:
    """Each route uses another pair than the previous one, or all pairs in a long run."""
    for number, (route, pairs) in enumerate(_routes(noun)):
        without = _run_route(world, isolation_without_row_security, route, pairs[0])
        assert without.answer is not None
        expected = {route.good.status} if route.good.status else {200, 201, 202, 204}
        expected = {403} if route.name in ENTERING else expected
        assert without.answer.status in expected, (route.name, str(without))
        for pair in pairs if every_pair else [pairs[number % len(pairs)]]:
            told = _run_route(world, isolation, route, pair)
            assert not told.seen, (route.name, pair, str(told))
            assert not told.changed, (route.name, pair, str(told))
            if route.name not in (*FOR_ALL, *ENTERING) and told.answer is not None:
                is_noticed = bool(without.changed) or told.answer.status != without.answer.status
                assert is_noticed or told.answer.body != without.answer.body, (route.name, pair, str(told))


def test_unscoped_services_leak_without_row_security(
    world: Installation, isolation_without_row_security: RequestIsolation
) -> None:
    """Proves that the test above can fail: it compares names, ids, rows and responses."""
    found = {"seen": 0, "changed": 0}
    for noun in ("sites", "endpoints", "policies", "certificates", "members", "templates", "jobs", "tenants"):
        for route, pairs in _routes(noun):
            told = _run_route(world, isolation_without_row_security, route, pairs[0])
            found["seen"] += bool(told.seen)
            found["changed"] += bool(told.changed)
            # A rollout names nobody.
            if route.name.startswith("list") and route.name != "listRollouts":
                assert told.seen, (route.name, str(told))
    assert min(found.values()) > 20, found


OWN = [route for routes in ROUTES.values() for route in routes if isinstance(route.asks, RequiresSelf)]
ME = next(route for route in OWN if route.name == "getMe")
# These end the sign-in of the request.
BY_COOKIE = {"signOut"}


def test_things_of_another_user_are_reported_as_unknown(world: Installation, isolation: RequestIsolation) -> None:
    mine, theirs = world.things["acme-1"], world.things["bolt-1"]
    for name in ("session_id", "passkey_id"):
        for route in (route for route in OWN if f"{{{name}}}" in route.path):
            told = []
            for things in (theirs, nonexistent_values()):
                with isolation.open():
                    answer = world.ask_as_person(route, things, mine)
                    assert theirs["person_id"] not in {
                        each for owners in isolation.changed().values() for each in owners
                    }
                told.append((answer.status, answer.body))
            assert told[0] == told[1], route
            assert told[0][0] == 404, (route, told)


@pytest.mark.parametrize("route", OWN, ids=lambda route: route.name)
def test_unscoped_service_cannot_reach_another_account(
    world: Installation, isolation: RequestIsolation, route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller is signed in as one user, and the database scope is set to the other."""
    mine, theirs = world.things["acme-1"], world.things["bolt-1"]
    with isolation.open():
        own = world.ask_as_person(ME, theirs, theirs)
        assert seen_of("bolt-1", own, ""), own.text
    monkeypatch.setattr(OwnAccount, "session", lambda self: session_scope(PersonScope(mine["person_id"])))
    with isolation.open():
        with suppress(Exception):
            # Without a required row there is no response; otherwise the response is the caller's own.
            world.ask_as_person(route, theirs, theirs)
        changed = {table: owners for table, owners in isolation.changed().items() if theirs["person_id"] in owners}
    if route.name not in BY_COOKIE:
        assert not changed, (route.name, changed)
