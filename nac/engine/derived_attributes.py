"""Attributes that the engine derives from a request: the site's local time and parts of the identity.

The engine computes the derived attributes only for policies that use these attributes.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import tzinfo

from nac.engine.attributes import ATTRIBUTE_CATALOGUE
from nac.engine.matchers import MISSING, Attributes, Scalar
from nac.engine.time_windows import build_wall_clock

# Function (attributes, epoch seconds) -> attributes with the derived attributes.
AttributeCompletion = Callable[[Attributes, int], Attributes]
TIME_ATTRIBUTE = "time"


def _user_part(identity: str) -> str:
    user, at, _ = identity.rpartition("@")
    return user if at else identity


def _realm_part(identity: str) -> str:
    # RFC 7542 2.2: the realm is the part after the last @.
    return identity.rpartition("@")[2] if "@" in identity else ""


_PART_READERS: Mapping[str, Callable[[str], str]] = {"identity.user": _user_part, "identity.realm": _realm_part}


def find_source_attributes(names: Collection[str]) -> frozenset[str]:
    """Return the attributes from which the attributes `names` are derived."""
    derived = {attribute.derived_from for name in names if (attribute := ATTRIBUTE_CATALOGUE.get(name)) is not None}
    return frozenset(derived & ATTRIBUTE_CATALOGUE.keys())


def build_completion(names: Collection[str], zone: tzinfo) -> AttributeCompletion | None:
    """Return a function that adds the derived attributes among `names`; None if no name belongs to a derived
    attribute.

    `zone` is the time zone of the site.
    """
    parts = [
        (name, ATTRIBUTE_CATALOGUE[name].derived_from, part) for name, part in _PART_READERS.items() if name in names
    ]
    clock = build_wall_clock(zone) if TIME_ATTRIBUTE in names else None
    if not parts and clock is None:
        return None

    def complete(attributes: Attributes, at: int) -> Attributes:
        completed = dict(attributes)
        for name, source, part in parts:
            whole = attributes.get(source, MISSING)
            completed[name] = tuple(found for value in whole if type(value) is str and (found := part(value)))
        if clock is not None:
            completed[TIME_ATTRIBUTE] = _wall_time(clock, at)
        return completed

    return complete


def _wall_time(clock: Callable[[int], int], at: int) -> tuple[Scalar, ...]:
    try:
        return (clock(at),)
    except (OverflowError, ValueError, OSError):
        # The time is outside the range of Python's calendar, so no window matches.
        return ()
