"""Routes about the caller's account show and change nothing of another user, with or without the service's scope."""

from contextlib import suppress

import pytest

from api.access import RequiresSelf
from api.own_account import OwnAccount
from nac.kit.db import PersonScope, session_scope
from tests.isolation.installation import ROUTES, Installation, Route
from tests.isolation.request_isolation import RequestIsolation
from tests.isolation.scope_bypass import seen_of
from tests.isolation.tenant_contents import nonexistent_values

OWN = [route for routes in ROUTES.values() for route in routes if isinstance(route.asks, RequiresSelf)]


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


ME = next(route for route in OWN if route.name == "getMe")
# These end the sign-in of the request.
BY_COOKIE = {"signOut"}
