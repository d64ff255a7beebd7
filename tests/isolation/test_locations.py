"""Each 201 response has a Location where the new thing can be read, for each such route."""

from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.isolation.fuzz_inputs import as_whom, things_of
from tests.isolation.installation import BY_NAME, ROUTES, Installation, Route
from tests.isolation.request_isolation import RequestIsolation

# Requests that do not return 201 here, and the test that checks their Location.
_ELSEWHERE = {
    "createMyPasskey": "tests/sign_in/test_sign_in.py",
    "confirmSignUp": "tests/trials/test_signing_up.py",
}
# One is already in progress, and is cancelled first.
_FIRST = {"startSecretRotation": "cancelSecretRotation"}
# Things returned with their parent: a link with its user, codes with the account.
_NO_ID = {"createPasswordLink", "startMyTotp", "createMyRecoveryCodes"}


def _making(world: Installation, noun: str) -> Iterator[Route]:
    yield from (route for route in ROUTES[noun] if "201" in world.described(route)["responses"])


def test_every_create_operation_documents_a_location(world: Installation) -> None:
    made = [route for noun in ROUTES for route in _making(world, noun)]
    assert len(made) > 35
    assert _ELSEWHERE.keys() <= {route.name for route in made}
    for route in made:
        assert "Location" in world.described(route)["responses"]["201"]["headers"], route.name


@pytest.mark.parametrize("noun", ROUTES)
def test_created_thing_is_readable_at_its_location(world: Installation, isolation: RequestIsolation, noun: str) -> None:
    for route in _making(world, noun):
        if route.name in _ELSEWHERE:
            continue
        things = things_of(world, route)
        headers = as_whom(world, route, things)
        with isolation.open():
            if route.name in _FIRST:
                first = BY_NAME[_FIRST[route.name]]
                before = world.call(first.method, headers=headers, **first.good.asked(first.path, things))
                assert before.status < 300, before.text
            made = world.call(route.method, headers=headers, **route.good.asked(route.path, things))
            assert made.status == 201, (route.name, made.text)
            assert "location" in made.headers, route.name
            where = urlsplit(made.headers["location"])
            assert (where.scheme, where.netloc) == ("", ""), route.name
            read = world.call("GET", where.path, headers=headers, query=dict(parse_qsl(where.query)))
        assert read.status == 200, (route.name, made.headers["location"], read.text)
        shown, told = read.json, made.json
        name = next((each for each in ("id", "mac", "slug", "serial", "number", "name") if each in told), None)
        if route.name not in _NO_ID and name is not None:
            assert shown[name] == told[name], (route.name, read.text)


def test_replayed_response_has_the_same_location(world: Installation, isolation: RequestIsolation) -> None:
    route = BY_NAME["createSite"]
    things = things_of(world, route)
    headers = as_whom(world, route, things) | {"Idempotency-Key": "located"}
    with isolation.open():
        first, again = (
            world.call(route.method, headers=headers, **route.good.asked(route.path, things)) for _ in range(2)
        )
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["location"] == first.headers["location"]
