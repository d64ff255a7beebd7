"""Which of some hundred routes a path belongs to, without trying one after the other.

Stands before all routes of an application. A path that one of them has word for word is its alone, and no value of
another's parameter (OpenAPI 3.1 4.8.8.2); what is found nowhere here is left to the routes behind.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send


@dataclass(slots=True)
class _PathNode:
    """Where paths part, segment by segment."""

    named: dict[str, "_PathNode"] = field(default_factory=dict)
    any: "_PathNode | None" = None
    routes: list[Route] = field(default_factory=list)

    def below(self, segment: str) -> "_PathNode":
        found = self.any if segment.startswith("{") else self.named.get(segment)
        if found is not None:
            return found
        made = _PathNode()
        if segment.startswith("{"):
            self.any = made
        else:
            self.named[segment] = made
        return made

    def found(self, segments: Sequence[str]) -> Iterator[list[Route]]:
        """Those of each node that the path leads to, words before parameters."""
        if not segments:
            if self.routes:
                yield self.routes
            return
        for node in (self.named.get(segments[0]), self.any):
            if node is not None:
                yield from node.found(segments[1:])


class RouteIndex(BaseRoute):
    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._root = _PathNode()
        for route in routes:
            if isinstance(route, Route) and (segments := _split_plain_path(route.path)):
                node = self._root
                for segment in segments:
                    node = node.below(segment)
                node.routes.append(route)

    def routes_of(self, path: str) -> list[Route]:
        return next(self._root.found(path.split("/")), [])

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        found: tuple[Match, Scope] = Match.NONE, {}
        if scope["type"] == "http" and not scope.get("root_path"):
            for route in self.routes_of(scope["path"]):
                match, child_scope = route.matches(scope)
                if match is Match.FULL:
                    return match, {**child_scope, "route": route}
                if match is Match.PARTIAL:
                    # It says itself that it has not this method.
                    found = Match.FULL, {**child_scope, "route": route}
        return found

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await scope["route"].handle(scope, receive, send)


# A word, or one parameter of any text without a slash.
_PLAIN_SEGMENT = re.compile(r"[^{}:/]*|\{[^{}:/]+\}")


def _split_plain_path(path: str) -> list[str]:
    """None where a parameter may hold a slash, or is a part of a segment."""
    segments = path.split("/")
    return segments if all(map(_PLAIN_SEGMENT.fullmatch, segments)) else []
