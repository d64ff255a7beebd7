"""Each route writes only tables that match its declared effects."""

import re
from itertools import chain

from sqlalchemy import Engine

from api.access import RequiresChangePermission, RequiresPermission
from nac.kit.db.base import Base
from tests.isolation.fuzz_inputs import as_whom, things_of
from tests.isolation.installation import BY_NAME, Installation, Route
from tests.isolation.request_isolation import RequestIsolation
from tests.isolation.tenant_contents import NOUNS
from tests.statements import counted

_WRITTEN = re.compile(r"\b(?:INSERT INTO|DELETE FROM|(?<!FOR )(?<!KEY )(?<!DO )UPDATE) (\w+)")
_EFFECTS = {table: effects for noun in NOUNS for table, effects in noun.effects.items()}
_SIDE_TABLES = {"idempotency_keys", "mails", *(table for noun in NOUNS for table in noun.side_tables)}
# The registration authority is created on first use.
_READS_THAT_WRITE = {"getScep"}


def _written(world: Installation, hall: RequestIsolation, route: Route) -> set[str]:
    """Return the tables that a valid request writes, without those that triggers write."""
    things = things_of(world, route)
    asked = route.good.asked(route.path, things)
    with hall.open(), counted(Engine) as statements:
        world.call(route.method, headers=as_whom(world, route, things), **asked)
    return set(chain.from_iterable(map(_WRITTEN.findall, statements)))


def test_written_tables_match_the_declared_effects(world: Installation, hall: RequestIsolation) -> None:
    wrong, seen = [], set()
    for name, route in BY_NAME.items():
        if not isinstance(route.asks, RequiresPermission):
            continue
        tables = _written(world, hall, route) - _SIDE_TABLES
        seen |= tables
        if isinstance(route.asks, RequiresChangePermission):
            wrong += [(name, table) for table in tables if not route.asks.leads_to & set(_EFFECTS.get(table, ()))]
        elif tables and name not in _READS_THAT_WRITE:
            wrong.append((name, *tables))
    assert not wrong
    assert {"sites", "policies", "api_tokens", "certificates", "nases", "coa_requests", "jobs"} <= seen


def test_effect_tables_match_the_database() -> None:
    assert {*_EFFECTS, *_SIDE_TABLES} <= Base.metadata.tables.keys()
