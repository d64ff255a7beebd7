"""Input for a request generator (schemathesis): a request for each operation, from tests.isolation.nouns.

The installation undoes each request, so that deletions remove nothing.
"""

import asyncio
import json
from collections import Counter
from copy import deepcopy
from typing import Any

from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access import RequiresSelf
from nac.kit.permissions import PermissionLevel
from tests.isolation.asgi_caller import is_event_stream
from tests.isolation.installation import BY_NAME, Installation, Route
from tests.isolation.request_isolation import RequestIsolation

_ASKED_AT = {
    PermissionLevel.TENANT: "acme-1",
    PermissionLevel.MSP: "acme",
    PermissionLevel.PLATFORM: "platform",
    None: "acme-1",
}
# Parameters without an existing thing get generated values.
_SHARE_OF_GOOD = 0.7
# Servers that do not run here: the request reports that they do not respond.
_ASK_OTHERS = {"startSignOn"}


class RollbackApplication:
    """The application, one request at a time, each with the initial state."""

    def __init__(self, world: Installation, isolation: RequestIsolation) -> None:
        self._app: ASGIApp = world.app
        self._open_isolation = isolation
        person = world.things_of("acme-1")
        self._cookies = [(b"cookie", f"admit={person['cookie']}".encode()), (b"admit-csrf", person["csrf"].encode())]
        self._own = [
            (route.method, compile_path(f"/v1{route.path}")[0])
            for route in BY_NAME.values()
            if isinstance(route.asks, RequiresSelf)
        ]
        self._turn = asyncio.Lock()
        # Count of responses by operation and status.
        self.answered: Counter[tuple[str, int]] = Counter()
        # The beginning of one such response.
        self.told: dict[tuple[str, int], bytes] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def receive_or_end() -> Message:
            return {"type": "http.disconnect"} if is_endless else await receive()

        async def noting(message: Message) -> None:
            nonlocal kind, is_endless
            if message["type"] == "http.response.start":
                is_endless = is_event_stream(message)
                name = getattr(scope.get("route"), "operation_id", None)
                kind = (str(name), message["status"])
                self.answered[kind] += 1
            else:
                self.told.setdefault(kind, message.get("body", b"")[:500])
            await send(message)

        kind, is_endless = ("", 0), False
        if any(method == scope["method"] and path.match(scope["path"]) for method, path in self._own):
            # A token is not a user.
            others = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
            scope = {**scope, "headers": [*others, *self._cookies]}
        async with self._turn:
            with self._open_isolation.open():
                await self._app(scope, receive_or_end, noting)


def document(world: Installation) -> dict[str, Any]:
    """`/openapi.json` with existing things as examples."""
    told = deepcopy(world.app.openapi())
    _forget_examples(told)
    for operations in told["paths"].values():
        for operation in operations.values():
            route = BY_NAME.get(operation.get("operationId"))
            if route is not None:
                _exemplify(operation, route, things_of(world, route))
    return told


def _exemplify(operation: dict[str, Any], route: Route, things: dict[str, Any]) -> None:
    good = route.good.asked(route.path, things)
    for parameter in operation.get("parameters", ()):
        named = things.get(route.good.path.get(parameter["name"], parameter["name"]))
        value = named if parameter["in"] == "path" else good.get("query", {}).get(parameter["name"])
        if value is not None:
            parameter["example"] = value
    if "body" in good or "content" in good:
        for content in operation["requestBody"]["content"].values():
            content["example"] = good["body"] if "body" in good else good["content"].decode()


def _forget_examples(of: Any) -> None:
    """Remove examples at any depth."""
    if isinstance(of, dict):
        for name in ("example", "examples"):
            # Except a property of that name.
            if not (isinstance(of.get(name), dict) and "type" in of[name]):
                of.pop(name, None)
        for inner in of.values():
            _forget_examples(inner)
    elif isinstance(of, list):
        for inner in of:
            _forget_examples(inner)


def configuration(world: Installation, *, always: bool) -> str:
    """`schemathesis.toml`: the credential, and the value of each path parameter, `always` or mostly."""
    lines: list[str] = []
    dictionaries: list[str] = []
    for route in BY_NAME.values():
        things = things_of(world, route)
        given = [
            (name, things[route.good.path.get(name, name)])
            for name in route.good.path_names(route.path)
            if route.good.path.get(name, name) in things
        ]
        if given or route.name in _ASK_OTHERS:
            lines += ["[[operations]]", f'include-operation-id = "{route.name}"']
        if route.name in _ASK_OTHERS:
            lines += ["[operations.checks.not_a_server_error]", 'expected-statuses = ["2xx", "3xx", "4xx", 503]']
        if given:
            lines.append("[operations.parameters]")
        for name, value in given:
            if always:
                lines.append(f'"path.{name}" = {json.dumps(value)}')
                continue
            called = f"{route.name}-{name}"
            dictionaries += [f"[dictionaries.{called}]", f"values = [{json.dumps(value)}]"]
            lines.append(f'"path.{name}" = {{ dictionary = "{called}", probability = {_SHARE_OF_GOOD} }}')
    token = world.tokens["platform", "platform-operator"]
    head = (f'headers = {{ Authorization = "Bearer {token}" }}', "[phases.examples]", "fill-missing = true")
    return "\n".join((*head, *dictionaries, *lines, ""))


def as_whom(world: Installation, route: Route, things: dict[str, Any]) -> dict[str, str]:
    """Headers of a platform operator, or of a user if the route is about the caller."""
    if isinstance(route.asks, RequiresSelf):
        return {"Cookie": f"admit={things['cookie']}", "Admit-CSRF": things["csrf"]}
    return {"Authorization": f"Bearer {world.tokens['platform', 'platform-operator']}"}


def things_of(world: Installation, route: Route) -> dict[str, Any]:
    return world.things_of(_ASKED_AT[route.level])
