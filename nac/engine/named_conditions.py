"""Reading order of named conditions, and detection of reference cycles."""

from collections.abc import Mapping
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter

MAX_NAMED = 500
# Finding a similar name takes milliseconds, and a document may have thousands of mistakes.
_MAX_SUGGESTIONS = 20


class NameSuggestions:
    """Suggests similar names for the first few unknown names of a document."""

    def __init__(self) -> None:
        self._left = _MAX_SUGGESTIONS

    def nearest(self, name: object, known: Mapping[str, object]) -> str:
        """Return a suggestion to append to a message, or ""."""
        if not isinstance(name, str) or len(name) > 128 or not self._left:
            return ""
        self._left -= 1
        found = get_close_matches(name, known, n=1, cutoff=0.7)
        return f"; did you mean {found[0]!r}?" if found else ""


def order_definitions(definitions: Mapping[str, object]) -> tuple[list[str], list[list[str]]]:
    """Return the names outside cycles, and the cycles.

    In the returned order, each name comes after the names to which its condition refers. A cycle is a list of names,
    with the first name repeated at the end.
    """
    graph = {
        name: [other for other in list_referred_names(definition) if other in definitions]
        for name, definition in definitions.items()
    }
    places = {name: place for place, name in enumerate(graph)}
    circles: list[list[str]] = []
    while True:
        sorter = TopologicalSorter(graph)
        try:
            sorter.prepare()
        except CycleError as error:
            # TopologicalSorter lists references backwards. Reverse them, and start with the first name in the document.
            circle = list(reversed(error.args[1]))[:-1]
            start = min(range(len(circle)), key=lambda index: places[circle[index]])
            circle = circle[start:] + circle[:start]
            circles.append([*circle, circle[0]])
            for name in circle:
                del graph[name]
            graph = {name: [other for other in others if other in graph] for name, others in graph.items()}
        else:
            return list(TopologicalSorter(graph).static_order()), circles


def list_referred_names(condition: object) -> list[str]:
    """Return the names to which a condition refers, in order, without duplicates; [] for an invalid condition."""
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
