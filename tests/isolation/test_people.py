"""Routes about oneself: of another person nothing is seen or changed, by the service's own scope or without it."""

from contextlib import suppress

import pytest

from api.access import RequiresSelf
from api.own_account import OwnAccount
from nac.db import PersonScope, session_scope
from tests.isolation.forcing import seen_of
from tests.isolation.hall import Hall
from tests.isolation.installation import ROUTES, Installation, Route
from tests.isolation.things import nobodys

OWN = [route for routes in ROUTES.values() for route in routes if isinstance(route.asks, RequiresSelf)]


def test_things_of_another_person_are_answered_as_things_that_there_are_not(world: Installation, hall: Hall) -> None:
    mine, theirs = world.things["acme-1"], world.things["bolt-1"]
    for name in ("session_id", "passkey_id"):
        for route in (route for route in OWN if f"{{{name}}}" in route.path):
            told = []
            for things in (theirs, nobodys()):
                with hall.open():
                    answer = world.ask_as_person(route, things, mine)
                    assert theirs["person_id"] not in {each for owners in hall.changed().values() for each in owners}
                told.append((answer.status, answer.body))
            assert told[0] == told[1], route
            assert told[0][0] == 404, (route, told)


@pytest.mark.parametrize("route", OWN, ids=lambda route: route.name)
def test_account_of_another_is_not_reached_without_the_services_scope(
    world: Installation, hall: Hall, route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signed in as one person; the database is told that it is the other one."""
    mine, theirs = world.things["acme-1"], world.things["bolt-1"]
    with hall.open():
        own = world.ask_as_person(ME, theirs, theirs)
        assert seen_of("bolt-1", own, ""), own.text
    monkeypatch.setattr(OwnAccount, "session", lambda self: session_scope(PersonScope(mine["person_id"])))
    with hall.open():
        with suppress(Exception):
            # Where a row must be and none is found, nothing is answered; else its answer is the sign-in's own.
            world.ask_as_person(route, theirs, theirs)
        changed = {table: owners for table, owners in hall.changed().items() if theirs["person_id"] in owners}
    if route.name not in BY_COOKIE:
        assert not changed, (route.name, changed)


ME = next(route for route in OWN if route.name == "getMe")
# End the sign-in that the request shows.
BY_COOKIE = {"signOut"}
