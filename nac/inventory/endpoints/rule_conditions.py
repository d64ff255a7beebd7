"""Conditions of groups by rule. A rule is a policy condition about an endpoint, which the worker evaluates.

A rule cannot use the groups of an endpoint, so rules do not depend on each other. A rule cannot use the time or posture
that expires, so the members of a group change only if an endpoint or a rule changes.
"""

from collections.abc import Mapping
from typing import Any

from nac.cellformat.endpoint_facts import FACT_NAMES, TIME_DEPENDENT_FACTS, get_endpoint_value
from nac.cellformat.packet_values import Values
from nac.cellformat.replica.record_builder import (
    UNREADABLE_ERRORS,
    attribute_texts,
    blocked_endpoint_record,
    posture_values,
)
from nac.cellformat.replica.records import EndpointRecord
from nac.engine import ComparisonTrace, DocumentMistake, Policy, PolicyErrors, PolicyRequest, compile_policy, decide
from nac.kit.errors import InvalidInput
from nac.kit.mac import is_random_mac
from nac.models import Endpoint

_ATTRIBUTE = "endpoint.attribute."
_STABLE_FACTS = FACT_NAMES - TIME_DEPENDENT_FACTS
READABLE_ATTRIBUTES = frozenset(("mac", "mac.random", "endpoint.name", *_STABLE_FACTS))
# Maximum number of rules per tenant. The worker evaluates each rule for each changed endpoint.
MAX_RULES = 200


class InvalidRule(InvalidInput):
    """The rule of the group has mistakes. Admit stored nothing."""

    def __init__(self, mistakes: tuple[DocumentMistake, ...]) -> None:
        super().__init__("; ".join(str(mistake) for mistake in mistakes), place="rule")
        self.mistakes = mistakes


def compile_rule(condition: object) -> Policy:
    """Convert the condition of a group to a policy that permits an endpoint only if it is a member of the group.

    Raises InvalidRule with all mistakes.
    """
    document = {"rules": [{"id": "member", "name": "member", "when": condition, "then": {"verdict": "permit"}}]}
    try:
        policy = compile_policy(document)
    except PolicyErrors as errors:
        mistakes = tuple(
            DocumentMistake(_strip_rule_place(mistake.place), mistake.message) for mistake in errors.mistakes
        )
        raise InvalidRule(mistakes) from errors
    unreadable = sorted(
        name for name in policy.rules[0].reads if name not in READABLE_ATTRIBUTES and not name.startswith(_ATTRIBUTE)
    )
    if unreadable:
        raise InvalidRule(tuple(DocumentMistake("", _unreadable_message(name)) for name in unreadable))
    return policy


def is_member(policy: Policy, endpoint: Endpoint) -> bool:
    return decide(policy, PolicyRequest(build_facts(endpoint), 0)).permitted


def explain_membership(policy: Policy, endpoint: Endpoint) -> tuple[ComparisonTrace, ...]:
    """Return the comparisons that make the endpoint a member."""
    return decide(policy, PolicyRequest(build_facts(endpoint), 0), trace=True).trace[-1].because


def build_facts(endpoint: Endpoint) -> Mapping[str, Values]:
    record = build_record(endpoint)
    found: dict[str, Values] = {"mac": (endpoint.mac,), "mac.random": (is_random_mac(endpoint.mac),)}
    if endpoint.name:
        found["endpoint.name"] = (endpoint.name,)
    for name in _STABLE_FACTS:
        value = get_endpoint_value(record, name, 0)
        if value:
            found[name] = value
    for name, text in record.attributes.items():
        found[_ATTRIBUTE + name] = (text,)
    return found


def build_record(endpoint: Endpoint) -> EndpointRecord:
    """Return the record of an endpoint, in the form that replicas have, but without groups and passphrase.

    If the attributes or the posture are unreadable, returns a record of a blocked endpoint.
    """
    seen: Any = endpoint.first_seen_at
    try:
        attributes, posture = attribute_texts(endpoint.attributes), posture_values(endpoint.posture)
    except UNREADABLE_ERRORS:
        return blocked_endpoint_record(str(endpoint.id), endpoint.name)
    return EndpointRecord(
        str(endpoint.id),
        endpoint.name,
        endpoint.status,
        (),
        0,
        attributes,
        endpoint.vendor,
        endpoint.profile,
        endpoint.profile_confidence,
        endpoint.os,
        int(seen.timestamp()) if seen else 0,
        posture=posture,
    )


def read_attributes(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Return an endpoint's attributes as text, or {} if they are unreadable."""
    try:
        return attribute_texts(attributes)
    except UNREADABLE_ERRORS:
        return {}


def _strip_rule_place(place: str) -> str:
    return place.removeprefix("rules[0].when").removeprefix(".")


def _unreadable_message(name: str) -> str:
    if name == "endpoint.group":
        return "endpoint.group: a rule of a group cannot read groups, because rules could depend on each other"
    return f"{name}: a rule of a group can read only {', '.join(sorted(READABLE_ATTRIBUTES))} and {_ATTRIBUTE}<name>"
