"""Policy attributes that describe a device, whether approved or not: vendor, profile, posture.

radiusd's module reads only the attributes that a policy uses. The worker uses the functions of this module to find the
members of groups by rule.
"""

from collections.abc import Callable, Mapping

from nac.cellformat.packet_values import Values
from nac.cellformat.replica.records import EndpointRecord

# Prefixes of policy attributes whose values an MDM, a scanner or a script reports.
POSTURE_PREFIXES = ("mdm.", "posture.")

_DAY_SECONDS = 86_400


def _first_seen_age(endpoint: EndpointRecord, now_seconds: int) -> int | None:
    return max(0, now_seconds - endpoint.first_seen) // _DAY_SECONDS if endpoint.first_seen else None


# Attribute -> function (endpoint record, current time in epoch seconds). A function returns None or "" for an unknown
# value.
_FACT_READERS: Mapping[str, Callable[[EndpointRecord, int], str | int | None]] = {
    "endpoint.vendor": lambda endpoint, _: endpoint.vendor,
    "endpoint.profile": lambda endpoint, _: endpoint.profile,
    "endpoint.profile.confidence": lambda endpoint, _: endpoint.confidence or None,
    "endpoint.os": lambda endpoint, _: endpoint.os,
    "endpoint.first_seen_age": _first_seen_age,
}
FACT_NAMES = frozenset(_FACT_READERS)
# Attributes whose values change as time passes.
TIME_DEPENDENT_FACTS = frozenset(("endpoint.first_seen_age",))


def is_endpoint_attribute(name: str) -> bool:
    """Return whether this file provides the policy attribute `name`."""
    return name in _FACT_READERS or name.startswith(POSTURE_PREFIXES)


def get_endpoint_value(endpoint: EndpointRecord, name: str, now_seconds: int) -> Values:
    """Return the values of the policy attribute `name`; () if the value is unknown or expired."""
    find = _FACT_READERS.get(name)
    if find is not None:
        found = find(endpoint, now_seconds)
        return () if found in (None, "") else (found,)
    stored = endpoint.posture.get(name)
    if stored is None:
        return ()
    value, until = stored
    return () if 0 < until <= now_seconds else (value,)


def build_device_facts(endpoint: EndpointRecord, now_seconds: int, *, known: bool) -> dict[str, Values]:
    """Return all policy attributes of a device from its record. `known` means that the device is approved."""
    facts = {
        name: found
        for name in (*FACT_NAMES, *endpoint.posture)
        if (found := get_endpoint_value(endpoint, name, now_seconds))
    }
    if groups := endpoint.groups + endpoint.rule_groups if known else endpoint.rule_groups:
        facts["endpoint.group"] = groups
    if known:
        facts["endpoint.name"] = (endpoint.name,)
        facts |= {f"endpoint.attribute.{name}": (value,) for name, value in endpoint.attributes.items()}
    return facts
