"""What conditions may ask about a device that was found out rather than approved: vendor, profile, posture.

It holds for every device that has a record, approved or not. The module reads only what a policy asks for; the worker
works groups by rule out of the same table.
"""

from collections.abc import Callable, Mapping

from nac.packet_values import Values
from nac.replica.records import EndpointRecord

# Names that come from outside: an MDM, a scanner, a script.
POSTURE_PREFIXES = ("mdm.", "posture.")

_DAY = 86_400


def _first_seen_age(endpoint: EndpointRecord, now_seconds: int) -> int | None:
    return max(0, now_seconds - endpoint.first_seen) // _DAY if endpoint.first_seen else None


# (record, epoch seconds) -> value; None or "" where nothing is known.
_FACTS: Mapping[str, Callable[[EndpointRecord, int], str | int | None]] = {
    "endpoint.vendor": lambda endpoint, _: endpoint.vendor,
    "endpoint.profile": lambda endpoint, _: endpoint.profile,
    "endpoint.profile.confidence": lambda endpoint, _: endpoint.confidence or None,
    "endpoint.os": lambda endpoint, _: endpoint.os,
    "endpoint.first_seen_age": _first_seen_age,
}
NAMES = frozenset(_FACTS)
# Those that change by themselves, as time goes by.
CHANGING = frozenset(("endpoint.first_seen_age",))


def is_of_endpoint(name: str) -> bool:
    """Whether the engine's attribute `name` is answered here."""
    return name in _FACTS or name.startswith(POSTURE_PREFIXES)


def endpoint_value(endpoint: EndpointRecord, name: str, now_seconds: int) -> Values:
    """The engine's attribute `name`; () where nothing is known, or what was known is stale."""
    find = _FACTS.get(name)
    if find is not None:
        found = find(endpoint, now_seconds)
        return () if found in (None, "") else (found,)
    told = endpoint.posture.get(name)
    if told is None:
        return ()
    value, until = told
    return () if 0 < until <= now_seconds else (value,)


def device_facts(endpoint: EndpointRecord, now_seconds: int, *, known: bool) -> dict[str, Values]:
    """All that conditions may ask about a device that has a record; `known`: it counts as approved."""
    facts = {
        name: found for name in (*NAMES, *endpoint.posture) if (found := endpoint_value(endpoint, name, now_seconds))
    }
    if groups := endpoint.groups + endpoint.rule_groups if known else endpoint.rule_groups:
        facts["endpoint.group"] = groups
    if known:
        facts["endpoint.name"] = (endpoint.name,)
        facts |= {f"endpoint.attribute.{name}": (value,) for name, value in endpoint.attributes.items()}
    return facts
