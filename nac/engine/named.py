"""Named conditions: in which order to read them so that each comes after those it refers to, and circles among them."""

from collections.abc import Mapping
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter

MAX_NAMED = 500
# A document may misspell thousands of names; each look for a near one costs milliseconds.
_MAX_SUGGESTIONS = 20


class Suggestions:
    """The nearest known name for one that is not known, for the first few that are asked."""

    def __init__(self) -> None:
        self._left = _MAX_SUGGESTIONS

    def nearest(self, name: object, known: Mapping[str, object]) -> str:
        """Half a sentence, "" where nothing is near."""
        if not isinstance(name, str) or len(name) > 128 or not self._left:
            return ""
        self._left -= 1
        found = get_close_matches(name, known, n=1, cutoff=0.7)
        return f"; did you mean {found[0]!r}?" if found else ""


def reading_order(definitions: Mapping[str, object]) -> tuple[list[str], list[list[str]]]:
    """(names of those in no circle, referred ones first; each circle as its names, the first once more at the end)."""
    graph = {
        name: [other for other in referred_names(definition) if other in definitions]
        for name, definition in definitions.items()
    }
    places = {name: place for place, name in enumerate(graph)}
    circles: list[list[str]] = []
    while True:
        sorter = TopologicalSorter(graph)
        try:
            sorter.prepare()
        except CycleError as error:
            # From the one referred to to the one that refers; told the other way round, from the first in the document.
            circle = list(reversed(error.args[1]))[:-1]
            start = min(range(len(circle)), key=lambda index: places[circle[index]])
            circle = circle[start:] + circle[:start]
            circles.append([*circle, circle[0]])
            for name in circle:
                del graph[name]
            graph = {name: [other for other in others if other in graph] for name, others in graph.items()}
        else:
            return list(TopologicalSorter(graph).static_order()), circles


def referred_names(condition: object) -> list[str]:
    """Names that it refers to, in order, once each; () of anything that is no condition."""
    found: dict[str, None] = {}
    stack = [condition]
    while stack:
        part = stack.pop()
        if not isinstance(part, dict):
            continue
        name = part.get("condition")
        if isinstance(name, str):
            found[name] = None
        for key in ("all", "any"):
            children = part.get(key)
            if isinstance(children, list):
                stack.extend(reversed(children))
        stack.append(part.get("not"))
    return list(found)
