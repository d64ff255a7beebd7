"""An item cannot have a name that is a fixed word of a route at the position of the name."""

from collections import defaultdict

from fastapi.routing import APIRoute

from api.v1.routers import ROUTES
from nac.kit.validation import RESERVED_NAMES

# Parameters at the position of fixed words. No name that a user chooses can equal these words.
NO_NAMES = {
    "authority": "an id, or root or issuing",
    "cell": "the name of a cell, from the settings of the installation",
    "entry_id": "a number",
    "log": "one of a fixed set",
    "mac": "a MAC address",
    "passkey_id": "an id",
    "redecision": "a number",
    "serial": "hex digits; no fixed word consists only of hex digits",
}


def test_words_next_to_name_parameters_are_reserved() -> None:
    words: defaultdict[str, set[str]] = defaultdict(set)
    for parameter, beside in _words_next_to_parameters():
        words[parameter] |= beside
    assert words.keys() - NO_NAMES.keys() == RESERVED_NAMES.keys()
    assert {name: words[name] for name in RESERVED_NAMES} == RESERVED_NAMES
    assert NO_NAMES.keys() <= words.keys()


def _words_next_to_parameters() -> list[tuple[str, set[str]]]:
    places: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for route in ROUTES:
        assert isinstance(route, APIRoute)
        parts = route.path.split("/")
        for depth, part in enumerate(parts):
            before = tuple("{}" if each.startswith("{") else each for each in parts[:depth])
            places[before].add(part)
    return [
        (part.strip("{}"), {each for each in beside if not each.startswith("{")})
        for beside in places.values()
        for part in beside
        if part.startswith("{") and len(beside) > 1 and any(not each.startswith("{") for each in beside)
    ]
