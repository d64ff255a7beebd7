"""Compiled policies, and for each of their decisions what the module makes of it: prepared once, not per packet."""

import json
from typing import NamedTuple

from nac.engine import Decision, Policy, compile_policy
from nac.packet_values import is_of_packet
from nac.replica.records import PolicyRecord, SiteRecord
from radius.module.certificate_fields import is_field

# Compiled policies of the tenants of one cell; a site with a fallback or time zone of its own holds one more.
MAX_COMPILED_POLICIES = 2_000


class Outcome(NamedTuple):
    permitted: bool
    reason: str
    detail: str = ""
    rule_id: str = ""
    rule_name: str = ""
    policy_id: str = ""
    policy_version: int = 0
    vlan: str = ""
    reply: tuple[tuple[str, str, str], ...] = ()


class SitePolicy:
    """What decides at a site."""

    __slots__ = ("_outcomes", "certificate_reads", "id", "packet_reads", "policy", "version")

    def __init__(self, record: PolicyRecord, policy: Policy) -> None:
        self.id = record.policy_id
        self.version = record.version
        self.policy = policy.without_trace()
        # Attributes of the packet that its conditions ask for.
        reads = sorted(policy.reads)
        self.packet_reads = tuple(filter(is_of_packet, reads))
        # Fields of the certificate that it must be taken apart for.
        self.certificate_reads = tuple(filter(is_field, reads))
        # By identity: `decide` returns one of these very objects, and they live as long as the policy.
        self._outcomes = {id(decision): self._make(decision) for decision in policy.decisions}

    def outcome(self, decision: Decision) -> Outcome:
        found = self._outcomes.get(id(decision))
        return self._make(decision) if found is None else found

    def _make(self, decision: Decision) -> Outcome:
        return Outcome(
            decision.permitted,
            decision.reason,
            "",
            decision.rule_id,
            decision.rule_name,
            self.id,
            self.version,
            decision.vlan,
            decision.reply,
        )


class Policies:
    """Compiled anew when the record in the replica is another. Sites that differ in nothing else share one."""

    def __init__(self) -> None:
        # By policy, and what sites make different: their fallback and time zone.
        self._compiled: dict[tuple[str, bytes, str], SitePolicy] = {}

    def for_site(self, site: SiteRecord, record: PolicyRecord) -> SitePolicy:
        key = record.policy_id, site.fallback, site.time_zone
        known = self._compiled.get(key)
        if known is not None and known.version == record.version:
            return known
        fallback = json.loads(site.fallback) if site.fallback else None
        policy = compile_policy(
            json.loads(record.document), fallback=fallback, time_zone=site.time_zone, refuse_unreachable=False
        )
        if len(self._compiled) >= MAX_COMPILED_POLICIES:
            self._compiled.clear()
        compiled = self._compiled[key] = SitePolicy(record, policy)
        return compiled
