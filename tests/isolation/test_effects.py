"""Each route writes only tables that match its declared effects."""

import re
from itertools import chain

from sqlalchemy import Engine

from api.access import RequiresChangePermission, RequiresPermission
from nac.kit.db.base import Base
from nac.kit.db.declarations import describe_table
from tests.isolation.fuzz_inputs import as_whom, things_of
from tests.isolation.installation import BY_NAME, Installation, Route
from tests.isolation.request_isolation import RequestIsolation
from tests.statements import counted

_WRITTEN = re.compile(r"\b(?:INSERT INTO|DELETE FROM|(?<!FOR )(?<!KEY )(?<!DO )UPDATE) (\w+)")
# A route that writes a table declares at least one of its effects. Tables without effects only follow others.
_EFFECTS = {
    table.name: effects
    for table in Base.metadata.tables.values()
    if (effects := describe_table(table).effects) is not None
}
# The registration authority is created on first use.
_READS_THAT_WRITE = {"getScep"}


def _written(world: Installation, isolation: RequestIsolation, route: Route) -> set[str]:
    """Return the tables that a valid request writes, without those that triggers write."""
    things = things_of(world, route)
    asked = route.good.asked(route.path, things)
    with isolation.open(), counted(Engine) as statements:
        world.call(route.method, headers=as_whom(world, route, things), **asked)
    return set(chain.from_iterable(map(_WRITTEN.findall, statements)))


def test_written_tables_match_the_declared_effects(world: Installation, isolation: RequestIsolation) -> None:
    wrong, seen = [], set()
    for name, route in BY_NAME.items():
        if not isinstance(route.asks, RequiresPermission):
            continue
        tables = {table for table in _written(world, isolation, route) if _EFFECTS.get(table) != ()}
        seen |= tables
        if isinstance(route.asks, RequiresChangePermission):
            wrong += [(name, table) for table in tables if not route.asks.leads_to & set(_EFFECTS.get(table, ()))]
        elif tables and name not in _READS_THAT_WRITE:
            wrong.append((name, *tables))
    assert not wrong
    assert {"sites", "policies", "api_tokens", "certificates", "nases", "coa_requests", "jobs"} <= seen
