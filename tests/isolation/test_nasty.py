"""Valid requests with one hostile value, in each position in turn: each response is documented, errors are problems,
and none is a 5xx."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from tests.isolation.asgi_caller import AsgiResponse
from tests.isolation.fuzz_inputs import as_whom, things_of
from tests.isolation.installation import ROUTES, Installation, Route
from tests.isolation.request_isolation import RequestIsolation

_VALUES: tuple[Any, ...] = (
    None,
    True,
    "",
    " ",
    "x" * 100_000,
    "a\x01b",
    "a\nb\r\nc",
    "\x7f\x85\u2028",
    "\u202e\U0001f4a9\ufffe\uffff\U0010ffff",
    "٣٤",
    "ﬀİß",
    "../../../etc/passwd",
    "'; DROP TABLE tenants; --",
    "%s%(x)s{0}$1\\",
    "=cmd|' /C calc'!A0",
    "9" * 19,
    "2026-02-30T25:61:00Z",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "00000000-0000-0000-0000-000000000000",
    "http://[::1]:99999/\u2025",
    "a" * 64 + "@" + "b." * 120 + "c",
    "::ffff:1.2.3.4%eth0",
    "0.0.0.0/0",
    0,
    -1,
    2**31,
    2**63,
    -(2**63) - 1,
    99999999999999999999,
    1.5,
    -0.0,
    1e308,
    5e-324,
    [],
    {},
    [[]],
    [None],
    [{}],
    {"": ""},
    {"__proto__": {"x": 1}},
    ["x"] * 20_000,
    {str(number): number for number in range(5_000)},
)
_IN_ADDRESSES: tuple[str, ...] = (
    " ",
    ".",
    "..",
    "\x01",
    "a\nb",
    "\ufffe\uffff\U0010ffff",
    "٣٤",
    "ﬀİß",
    "-1",
    "0",
    "1.5",
    "1e400",
    "NaN",
    str(2**31),
    str(2**63),
    "9" * 19,
    "9" * 5_000,
    "9999999999999999-1",
    "1-99999999999999999999",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "00000000-0000-0000-0000-000000000000",
    "x" * 10_000,
    "'\"\\%_",
    "*",
    "(",
)
_SHARE = 0.12


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _places(each, (*at, key))


def _with(value: Any, at: tuple[Any, ...], nasty: Any) -> Any:
    if not at:
        return nasty
    changed = deepcopy(value)
    inner = changed
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = nasty
    return changed


def _requests(route: Route, world: Installation, things: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    asked = route.good.asked(route.path, things)
    body = asked.get("body")
    if body is not None:
        full = dict.fromkeys(world.body_schema(route).get("properties", {})) | body if isinstance(body, dict) else body
        for at in _places(full):
            for nasty in _VALUES:
                yield f"{at}", asked | {"body": _with(body, at, nasty)}
    for name in route.good.path_names(route.path):
        for nasty in _IN_ADDRESSES:
            given = dict(things) | {route.good.path.get(name, name): nasty}
            yield f"path {name}", asked | {"path": route.good.asked(route.path, given)["path"]}
    for name in _queries(world, route):
        for nasty in _IN_ADDRESSES:
            yield f"query {name}", asked | {"query": dict(asked.get("query", {})) | {name: nasty}}


def _queries(world: Installation, route: Route) -> list[str]:
    return [each["name"] for each in world.described(route).get("parameters", ()) if each["in"] == "query"]


def _look(world: Installation, route: Route, where: str, answer: AsgiResponse, asked: object) -> None:
    told = world.described(route)["responses"]
    seen = (route.name, where, answer.status, answer.text[:600], str(asked)[:300])
    assert answer.status < 500 or answer.status == 503, seen
    assert str(answer.status) in told, seen
    if answer.status >= 400:
        assert answer.headers["content-type"] == "application/problem+json", seen
        problem = answer.json
        assert problem["title"], seen
        assert problem["code"], seen


@pytest.mark.long
@pytest.mark.parametrize("noun", ROUTES)
def test_hostile_values_cause_no_server_error(world: Installation, isolation: RequestIsolation, noun: str) -> None:
    """A random share of all cases, the same in each run."""
    chosen = Random(noun)
    for route in ROUTES[noun]:
        things = things_of(world, route)
        for where, asked in _requests(route, world, things):
            if chosen.random() < _SHARE:
                with isolation.open():
                    answer = world.call(route.method, headers=as_whom(world, route, things), **asked)
                _look(world, route, where, answer, asked)
