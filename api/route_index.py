"""Index of routes by path, which avoids trying hundreds of routes one by one.

The index is the first route of an application. A literal segment has precedence over a parameter (OpenAPI 3.1 4.8.8.2).
Requests for other paths go to the routes after the index.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi.routing import iter_route_contexts
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send


@dataclass(slots=True)
class _PathNode:
    """Node for one segment in the tree of paths."""

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
        """Yield the routes of each matching node. Nodes with literal segments come first."""
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
                    # The route responds with 405 to another method.
                    found = Match.FULL, {**child_scope, "route": route}
        return found

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await scope["route"].handle(scope, receive, send)


def list_allowed_methods(scope: Scope) -> set[str]:
    """Methods of all routes of the path (RFC 9110 15.5.6); empty if no route has the path."""
    path, routes = scope["path"], scope["app"].router.routes
    indexed = [route for index in routes if isinstance(index, RouteIndex) for route in index.routes_of(path)]
    of_path: list[Any] = [*indexed] or [route for route in iter_route_contexts(routes) if _matches_path(route, path)]
    return {method for route in of_path for method in route.methods or ()}


def _matches_path(route: object, path: str) -> bool:
    pattern = getattr(route, "path_regex", None)
    return pattern is not None and pattern.match(path) is not None


# A literal segment, or one parameter without a slash.
_PLAIN_SEGMENT = re.compile(r"[^{}:/]*|\{[^{}:/]+\}")


def _split_plain_path(path: str) -> list[str]:
    """Segments of the path. The result is empty if a parameter can contain a slash or is only a part of a segment."""
    segments = path.split("/")
    return segments if all(map(_PLAIN_SEGMENT.fullmatch, segments)) else []
