"""SQL statements of each route for a valid request, compared with statements.txt."""

from pathlib import Path

from sqlalchemy import Engine

from tests.isolation.asgi_caller import AsgiResponse
from tests.isolation.fuzz_inputs import as_whom, things_of
from tests.isolation.installation import BY_NAME, Installation, Route
from tests.isolation.request_isolation import RequestIsolation
from tests.statements import counted

_EXPECTED = Path(__file__).with_name("statements.txt")
# On a busy machine a route checks a second time whether the change is live.
_MORE = 1
# Statements that set a scope, which elsewhere share a message with the transaction's beginning (kit/db/session.py), and
# the hall's replacement of begin and end.
_AROUND = ("SELECT set_config", "SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT")


def _ask(world: Installation, route: Route) -> AsgiResponse:
    things = things_of(world, route)
    asked = route.good.asked(route.path, things)
    return world.call(route.method, headers=as_whom(world, route, things), **asked)


def test_routes_send_the_expected_number_of_statements(
    world: Installation, hall: RequestIsolation, tmp_path: Path
) -> None:
    found: dict[str, int] = {}
    with hall.open():
        # The first request of a token records its use.
        _ask(world, BY_NAME["getTenant"])
        for name, route in BY_NAME.items():
            with hall.passing(), counted(Engine) as statements:
                answer = _ask(world, route)
            if answer.status < 400:
                found[name] = sum(not statement.startswith(_AROUND) for statement in statements)
    lines = _EXPECTED.read_text().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    expected = {name: int(number) for name, number in (line.split() for line in lines[len(comments) :])}
    proposed = tmp_path / _EXPECTED.name
    proposed.write_text("\n".join((*comments, *(f"{name} {found[name]}" for name in sorted(found)), "")))
    names = expected.keys() | found.keys()
    wrong = {name for name in names if not 0 <= found.get(name, -9) - expected.get(name, -99) <= _MORE}
    assert not wrong, f"{sorted(wrong)}: if this is intended, copy {proposed} to {_EXPECTED}"
