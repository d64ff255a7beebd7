"""SQL statements of each route for a valid request: their number, as in tests/isolation/nouns, and the tables that they
write, which match the declared effects."""

import re
from itertools import chain

import pytest
from sqlalchemy import Engine

from api.access import RequiresChangePermission, RequiresPermission
from nac.kit.db.base import Base
from nac.kit.db.declarations import describe_table
from nac.sessions import log_search
from tests.isolation.asgi_caller import AsgiResponse
from tests.isolation.fuzz_inputs import as_whom, things_of
from tests.isolation.installation import BY_NAME, Installation, Route
from tests.isolation.request_isolation import RequestIsolation
from tests.isolation.tenant_contents import NOUNS
from tests.statements import counted

# Before the long tests of this folder: confirmations and the last use of tokens are only new for some minutes.
pytestmark = pytest.mark.early

# On a busy machine a route checks a second time whether the change is live.
_MORE = 1
# Statements that set a scope, which elsewhere share a message with the transaction's beginning (kit/db/session.py), and
# savepoints, by which `RequestIsolation` replaces begin and end.
_AROUND = ("SELECT set_config", "SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT")


_WRITTEN = re.compile(r"\b(?:INSERT INTO|DELETE FROM|(?<!FOR )(?<!KEY )(?<!DO )UPDATE) (\w+)")
# A route that writes a table declares at least one of its effects. Tables without effects only follow others.
_EFFECTS = {
    table.name: effects
    for table in Base.metadata.tables.values()
    if (effects := describe_table(table).effects) is not None
}
# The registration authority is created on first use.
_READS_THAT_WRITE = {"getScep"}


def _ask(world: Installation, route: Route) -> AsgiResponse:
    things = things_of(world, route)
    asked = route.good.asked(route.path, things)
    return world.call(route.method, headers=as_whom(world, route, things), **asked)


def test_each_route_is_an_operation_of_one_noun() -> None:
    assert sorted(name for noun in NOUNS for name in noun.operations) == sorted(BY_NAME)


def test_routes_send_the_expected_number_of_statements(
    world: Installation, isolation: RequestIsolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine, searches would end early at the default time limit.
    monkeypatch.setattr(log_search, "BUDGET_SECONDS", 20.0)
    found: dict[str, int | None] = {}
    with isolation.open():
        # The first request of a token records its use.
        _ask(world, BY_NAME["getTenant"])
        for name, route in BY_NAME.items():
            with isolation.passing(), counted(Engine) as statements:
                answer = _ask(world, route)
            number = sum(not statement.startswith(_AROUND) for statement in statements)
            found[name] = number if answer.status < 400 else None
    expected = {name: route.good.statements for name, route in BY_NAME.items()}
    wrong = {
        name: f"{expected[name]} expected, {number} sent"
        for name, number in found.items()
        if number != expected[name] and (number is None or number - _MORE != expected[name])
    }
    assert not wrong, f"{wrong}: if this is intended, change the number in tests/isolation/nouns"


def test_written_tables_match_the_declared_effects(world: Installation, isolation: RequestIsolation) -> None:
    wrong, seen = [], set()
    for name, route in BY_NAME.items():
        if not isinstance(route.asks, RequiresPermission):
            continue
        with isolation.open(), counted(Engine) as statements:
            _ask(world, route)
        written = set(chain.from_iterable(map(_WRITTEN.findall, statements)))
        tables = {table for table in written if _EFFECTS.get(table) != ()}
        seen |= tables
        if isinstance(route.asks, RequiresChangePermission):
            wrong += [(name, table) for table in tables if not route.asks.leads_to & set(_EFFECTS.get(table, ()))]
        elif tables and name not in _READS_THAT_WRITE:
            wrong.append((name, *tables))
    assert not wrong
    assert {"sites", "policies", "api_tokens", "certificates", "nases", "coa_requests", "jobs"} <= seen
