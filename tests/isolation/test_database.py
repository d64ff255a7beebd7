"""Every route without the service layer's scope: what the service is told to be is another's place, and row-level
security alone stands before it. The same without row-level security shows that each of them would be noticed."""

from dataclasses import dataclass
from typing import Any

import pytest

from nac.accounts.permissions import PermissionLevel
from tests.isolation.calls import Answer
from tests.isolation.forcing import forced, seen_of
from tests.isolation.hall import Hall
from tests.isolation.installation import ROUTES, Installation, Route

# Who asks, and whose route it is.
PAIRS = {
    PermissionLevel.TENANT: (("acme-1", "bolt-1"), ("acme-1", "acme-2")),
    PermissionLevel.MSP: (("acme", "bolt"), ("acme-1", "acme"), ("bolt-1", "acme")),
    PermissionLevel.PLATFORM: (("acme", "platform"), ("acme-1", "platform")),
}
_ADMINISTRATORS = {PermissionLevel.TENANT: "tenant-admin", PermissionLevel.MSP: "msp-admin"}

# Answer the same whoever's place it is.
FOR_ALL = {
    "listPolicyAttributes": "what every policy may ask for",
    "getPolicySchema": "of every policy",
    "checkPolicy": "of the document that was sent",
    "listVendors": "the catalogue",
    "listSnippets": "the catalogue",
    "listRetentionLimits": "the platform's, within which every tenant chooses",
    "getRetentionLimits": "as above",
    "trustClock": "of the servers' clock; no row of anybody's",
}
# No transaction but the platform's enters an account or an MSP (nac.db.enter_person, enter_msp).
ENTERING = (
    *("createPerson", "getPerson", "updatePerson", "deletePersonSessions", "resetPersonFactors", "createPasswordLink"),
    "suspendMsp",
)


@dataclass(frozen=True)
class Told:
    answer: Answer | None
    # Names and ids of the other's place.
    seen: frozenset[str]
    # Whose rows it changed, where they are not the asker's.
    changed: dict[str, set[str]]

    @property
    def succeeded(self) -> bool:
        return self.answer is not None and self.answer.status < 300

    def __str__(self) -> str:
        answer = f"{self.answer.status} {self.answer.text[:500]}" if self.answer else "an error"
        return f"{sorted(self.seen)} {self.changed} {answer}"


def _told(world: Installation, hall: Hall, route: Route, pair: tuple[str, str]) -> Told:
    asker, other = (world.places.get(slug) for slug in pair)
    assert asker is not None
    assert other is not None
    things = world.things_of(other.slug)
    asked = route.good.asked(route.path, things)
    own = {"", str(asker.id), *(str(place.id) for place in world.places.values() if asker.covers(place))}
    own -= {""} if other.level is PermissionLevel.PLATFORM else set()
    answer: Answer | None = None
    with hall.open(), forced(asker.scope):
        try:
            answer = world.ask(route, things, world.tokens[asker.slug, _ADMINISTRATORS[asker.level]])
        except Exception:
            # A service that finds no row where one must be: nothing is answered.
            assert hall.behind_walls
        changed = {table: owners - own for table, owners in hall.changed().items() if owners - own}
    mark = r"(?:bolt-1|platform\.example)" if other.level is PermissionLevel.PLATFORM else other.slug
    seen = seen_of(mark, answer, asked) if answer else set()
    return Told(answer, frozenset(each for each in seen if asker.slug not in each), changed)


def _routes(noun: str) -> list[tuple[Route, Any]]:
    return [(route, PAIRS[route.level]) for route in ROUTES[noun] if route.level is not None]


@pytest.mark.parametrize("every_pair", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("noun", ROUTES)
def test_services_that_ask_for_anothers_rows_get_nothing_of_the_database(
    world: Installation, hall: Hall, bare_hall: Hall, noun: str, every_pair: bool
) -> None:
    """Each route by one pair, another than the route before, or by all of them."""
    for number, (route, pairs) in enumerate(_routes(noun)):
        without = _told(world, bare_hall, route, pairs[0])
        assert without.answer is not None
        expected = {route.good.status} if route.good.status else {200, 201, 202, 204}
        expected = {403} if route.name in ENTERING else expected
        assert without.answer.status in expected, (route.name, str(without))
        for pair in pairs if every_pair else [pairs[number % len(pairs)]]:
            told = _told(world, hall, route, pair)
            assert not told.seen, (route.name, pair, str(told))
            assert not told.changed, (route.name, pair, str(told))
            if route.name not in (*FOR_ALL, *ENTERING) and told.answer is not None:
                is_noticed = bool(without.changed) or told.answer.status != without.answer.status
                assert is_noticed or told.answer.body != without.answer.body, (route.name, pair, str(told))


def test_without_row_level_security_the_same_requests_find_what_is_anothers(
    world: Installation, bare_hall: Hall
) -> None:
    """That the test above can fail: told apart by names, ids and rows, beside answers that differ."""
    found = {"seen": 0, "changed": 0}
    for noun in ("sites", "endpoints", "policies", "certificates", "members", "templates", "jobs", "tenants"):
        for route, pairs in _routes(noun):
            told = _told(world, bare_hall, route, pairs[0])
            found["seen"] += bool(told.seen)
            found["changed"] += bool(told.changed)
            # A roll-out names nobody.
            if route.name.startswith("list") and route.name != "listRollouts":
                assert told.seen, (route.name, str(told))
    assert min(found.values()) > 20, found
