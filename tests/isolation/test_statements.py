"""SQL statements of each route for a valid request, compared with the number in tests/isolation/nouns."""

from sqlalchemy import Engine

from tests.isolation.asgi_caller import AsgiResponse
from tests.isolation.fuzz_inputs import as_whom, things_of
from tests.isolation.installation import BY_NAME, Installation, Route
from tests.isolation.request_isolation import RequestIsolation
from tests.isolation.tenant_contents import NOUNS
from tests.statements import counted

# On a busy machine a route checks a second time whether the change is live.
_MORE = 1
# Statements that set a scope, which elsewhere share a message with the transaction's beginning (kit/db/session.py), and
# savepoints, by which `RequestIsolation` replaces begin and end.
_AROUND = ("SELECT set_config", "SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT")


def _ask(world: Installation, route: Route) -> AsgiResponse:
    things = things_of(world, route)
    asked = route.good.asked(route.path, things)
    return world.call(route.method, headers=as_whom(world, route, things), **asked)


def test_each_route_is_an_operation_of_one_noun() -> None:
    assert sorted(name for noun in NOUNS for name in noun.operations) == sorted(BY_NAME)


def test_routes_send_the_expected_number_of_statements(world: Installation, isolation: RequestIsolation) -> None:
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
