"""What conditions may ask about a device that was found out rather than approved: vendor, profile, posture.

It holds for every device that has a record, approved or not. The module reads only what a policy asks for; the worker
works groups by rule out of the same table.
"""

from collections.abc import Callable, Mapping

from nac.packet_values import Values
from nac.replica.records import EndpointRecord

# Names that come from outside: an MDM, a scanner, a script.
POSTURE_PREFIXES = ("mdm.", "posture.")

_FACTS: Mapping[str, Callable[[EndpointRecord], str | int]] = {
    "endpoint.vendor": lambda endpoint: endpoint.vendor,
    "endpoint.profile": lambda endpoint: endpoint.profile,
    "endpoint.profile.confidence": lambda endpoint: endpoint.confidence,
    "endpoint.os": lambda endpoint: endpoint.os,
    "endpoint.first_seen": lambda endpoint: endpoint.first_seen,
}
NAMES = frozenset(_FACTS)


def is_of_endpoint(name: str) -> bool:
    """Whether the engine's attribute `name` is answered here."""
    return name in _FACTS or name.startswith(POSTURE_PREFIXES)


def endpoint_value(endpoint: EndpointRecord, name: str, now_seconds: int) -> Values:
    """The engine's attribute `name`; () where nothing is known, or what was known is stale."""
    find = _FACTS.get(name)
    if find is not None:
        found = find(endpoint)
        return (found,) if found else ()
    told = endpoint.posture.get(name)
    if told is None:
        return ()
    value, until = told
    return () if 0 < until <= now_seconds else (value,)
