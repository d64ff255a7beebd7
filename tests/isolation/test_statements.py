"""SQL statements of each route for a good request, compared with docs/internals/statements.md."""

import re
from pathlib import Path

from sqlalchemy import Engine

from tests.isolation.calls import Answer
from tests.isolation.fed import as_whom, things_of
from tests.isolation.hall import Hall
from tests.isolation.installation import BY_NAME, Installation, Route
from tests.statements import counted

_PAGE = Path(__file__).parents[2] / "docs" / "internals" / "statements.md"
_ROW = re.compile(r"^\| (\w+) \| (\w+) \| `([^`]+)` \| (\d+) \|$", re.MULTILINE)
# One that a busy machine makes: a second look whether the change is live.
_MORE = 1
# What a scope is set by, which is one message with the transaction's beginning elsewhere (nac.db.session), and what the
# hall does in place of beginning and ending one.
_AROUND = ("SELECT set_config", "SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT")
_LINE = "|---|---|---|---|\n"


def _ask(world: Installation, route: Route) -> Answer:
    things = things_of(world, route)
    asked = route.good.asked(route.path, things)
    return world.call(route.method, headers=as_whom(world, route, things), **asked)


def test_routes_send_as_many_statements_as_is_told(world: Installation, hall: Hall, tmp_path: Path) -> None:
    found: dict[str, int] = {}
    with hall.open():
        # The first request of a token notes that it was used.
        _ask(world, BY_NAME["getTenant"])
        for name, route in BY_NAME.items():
            with hall.passing(), counted(Engine) as statements:
                answer = _ask(world, route)
            if answer.status < 400:
                found[name] = sum(not statement.startswith(_AROUND) for statement in statements)
    page = _PAGE.read_text()
    told = {name: int(number) for name, _, _, number in _ROW.findall(page)}
    rows = "".join(
        f"| {name} | {BY_NAME[name].method} | `{BY_NAME[name].path}` | {number} |\n"
        for name, number in sorted(found.items())
    )
    meant = tmp_path / _PAGE.name
    meant.write_text(page.partition(_LINE)[0] + _LINE + rows)
    wrong = {name for name in told.keys() | found.keys() if not 0 <= found.get(name, -9) - told.get(name, -99) <= _MORE}
    assert not wrong, f"{sorted(wrong)}: if that is meant, take {meant} as docs/{_PAGE.name}"
