"""Which of some hundred routes a path belongs to, without trying one after the other.

Stands before all routes of an application and finds the same one as they would; what it does not find is left to them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send


@dataclass(slots=True)
class _Node:
    """Where paths part, segment by segment."""

    named: dict[str, "_Node"] = field(default_factory=dict)
    any: "_Node | None" = None
    # By their place among all routes.
    routes: list[tuple[int, Route]] = field(default_factory=list)

    def below(self, segment: str) -> "_Node":
        if not segment.startswith("{"):
            return self.named.setdefault(segment, _Node())
        if self.any is None:
            self.any = _Node()
        return self.any

    def found(self, segments: Sequence[str]) -> Iterator[tuple[int, Route]]:
        if not segments:
            yield from self.routes
            return
        for node in (self.named.get(segments[0]), self.any):
            if node is not None:
                yield from node.found(segments[1:])


class RouteIndex(BaseRoute):
    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._root = _Node()
        for place, route in enumerate(routes):
            # Others' parameters may hold a slash, or be a part of a segment.
            if isinstance(route, Route) and all(map(_is_plain, route.path.split("/"))):
                node = self._root
                for segment in route.path.split("/"):
                    node = node.below(segment)
                node.routes.append((place, route))

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] == "http" and not scope.get("root_path"):
            for _, route in sorted(self._root.found(scope["path"].split("/"))):
                match, child_scope = route.matches(scope)
                if match is Match.FULL:
                    return match, {**child_scope, "route": route}
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await scope["route"].handle(scope, receive, send)


def _is_plain(segment: str) -> bool:
    """A word, or one parameter of any text without a slash."""
    inner = segment[1:-1] if segment.startswith("{") and segment.endswith("}") else segment
    return not set(inner) & set("{}:")
