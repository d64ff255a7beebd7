"""Request examples in /openapi.json work. Each is sent unchanged to a place without the named things and to one with
them, and one of the two succeeds."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.isolation.asgi_caller import AsgiResponse
from tests.isolation.fuzz_inputs import as_whom, things_of
from tests.isolation.installation import BY_NAME, Installation, Route
from tests.isolation.request_isolation import RequestIsolation

# Examples that never succeed here, with the expected response and the reason. None: the body format.
_REFUSED: dict[int, dict[str, tuple[str, ...]]] = {
    401: {
        "no secret, code or passkey is anybody's": (
            *("signIn", "signInByTotp", "signInByRecoveryCode", "signInByPasskey", "startPasskeySignIn"),
            *("confirmByPassword", "confirmByPasskey", "createMyPasskey"),
        )
    },
    404: {
        "no secret has been shown that a code could be of": ("confirmMyTotp",),
        "trials are not offered here": ("signUp", "confirmSignUp"),
    },
    409: {
        "an MSP is called so": ("createMsp",),
        "a secret changes over already": ("startSecretRotation",),
        "the key of the root is there": ("importRootKey",),
        "nobody is on the network": ("createCoaRequests/disconnect", "createCoaRequests/change"),
    },
    422: {
        "a decision has its time in its id": ("simulatePolicy/decision",),
        "nothing has discovered this device": ("classifyEndpoints",),
        "no device has an address of that pool": ("releasePoolAddress",),
    },
    410: {"no mail has brought this link": ("resetPassword",)},
}
Steps = tuple[tuple[str, dict[str, str]], ...]
# Things that examples name, created by the requests of the book.
_PLACES: Steps = (
    ("updateCell", {}),
    ("createEndpointGroup", {"new_name": "printers"}),
    ("createUserGroup", {"new_name": "staff"}),
)
_THINGS: Steps = (
    ("createEndpoint", {"new_mac": "00:00:5e:00:53:01", "new_name": "Printer"}),
    ("createUser", {"new_name": "ann"}),
    ("createNas", {"new_name": "sw-2og-1"}),
    ("createPolicy", {"new_slug": "office"}),
    *(
        step
        for _ in range(2)
        for step in (("updatePolicyDraft", {"policy": "office"}), ("publishPolicy", {"drafted_policy": "office"}))
    ),
    ("createTenantOfMsp", {"new_slug": "hill-school"}),
    ("followTemplate", {"second_tenant": "hill-school"}),
)


class Example(NamedTuple):
    operation: str
    name: str
    media_type: str
    value: Any

    @property
    def id(self) -> str:
        return f"{self.operation}/{self.name}" if self.name else self.operation


def _operations(world: Installation) -> Iterator[tuple[Route, dict[str, Any]]]:
    for operations in world.app.openapi()["paths"].values():
        for operation in operations.values():
            route = BY_NAME.get(operation.get("operationId"))
            if route is not None:
                yield route, operation


def _examples(world: Installation) -> Iterator[Example]:
    for route, operation in _operations(world):
        for media_type, media in operation.get("requestBody", {}).get("content", {}).items():
            if "example" in media:
                yield Example(route.name, "", media_type, media["example"])
            for name, told in media.get("examples", {}).items():
                yield Example(route.name, name, media_type, told["value"])


def _send(
    world: Installation,
    route: Route,
    example: Example | None = None,
    query: Mapping[str, Any] = MappingProxyType({}),
    **more: Any,
) -> AsgiResponse:
    """Send the request of the book with this body and these parameters."""
    things = things_of(world, route) | more
    names = {name: name for name in route.good.path_names(route.path) if name in more}
    asked = replace(route.good, path={**route.good.path, **names}).asked(route.path, things)
    if query:
        asked["query"] = asked.get("query", {}) | dict(query)
    if example is not None:
        asked.pop("body", None)
        asked.pop("content", None)
        is_json = example.media_type == "application/json"
        asked["body" if is_json else "content"] = example.value if is_json else str(example.value).encode()
    return world.call(route.method, headers=as_whom(world, route, things), **asked)


def _make(world: Installation, steps: Steps) -> None:
    for name, things in steps:
        answer = _send(world, BY_NAME[name], **things)
        assert answer.status < 300, (name, things, answer.text)


def test_each_body_has_an_example(world: Installation) -> None:
    with_body = {route.name for route, operation in _operations(world) if "requestBody" in operation}
    assert with_body == {example.operation for example in _examples(world)}


def test_each_request_example_gets_a_response(world: Installation, isolation: RequestIsolation) -> None:
    left = list(_examples(world))
    told: dict[str, AsgiResponse] = {}
    for steps in ((), _PLACES, _PLACES + _THINGS):
        tried, left = left, []
        with isolation.open():
            _make(world, steps)
            for example in tried:
                with isolation.passing():
                    answer = _send(world, BY_NAME[example.operation], example)
                if answer.status >= 300:
                    left.append(example)
                    told[example.id] = answer
    expected = {name: status for status, why in _REFUSED.items() for names in why.values() for name in names}
    found = {example.id: told[example.id].status for example in left}
    assert found == expected, "\n".join(f"{name}: {told[name].text}" for name in found.keys() - expected.keys())


def test_each_parameter_example_is_valid(world: Installation, isolation: RequestIsolation) -> None:
    """All parameters of an operation at once. An unknown name returns that error."""
    wrong = []
    with isolation.open():
        for route, operation in _operations(world):
            given: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "header": {}}
            for parameter in operation.get("parameters", ()):
                value = parameter.get("example", next(iter(parameter["schema"].get("examples", ())), None))
                if value is not None and parameter["name"] not in ("tenant", "msp"):
                    given[parameter["in"]][parameter["name"]] = value
            if not any(given.values()):
                continue
            with isolation.passing():
                answer = _send(world, route, **given["path"], query=given["query"])
            told = answer.json if answer.status in (400, 415, 422) else {}
            places = {told.get("place"), *(each["place"] for each in told.get("mistakes", ()))}
            wrong += [(route.name, answer.text)] if places & {*given["path"], *given["query"]} else []
    assert not wrong
