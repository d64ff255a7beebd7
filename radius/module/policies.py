"""Compiled policies, and for each of their decisions what the module makes of it: prepared once, not per packet."""

import gc
import json
from typing import NamedTuple

from nac.engine import Decision, Policy, compile_policy
from nac.packet_values import is_of_packet
from nac.replica.records import PolicyRecord, SiteRecord

# Compiled policies of the tenants of one cell; a site with a fallback of its own holds one more.
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

    __slots__ = ("_outcomes", "id", "packet_reads", "policy", "version")

    def __init__(self, record: PolicyRecord, policy: Policy) -> None:
        self.id = record.policy_id
        self.version = record.version
        self.policy = policy.without_trace()
        # Attributes of the packet that its conditions ask for.
        self.packet_reads = tuple(sorted(name for name in policy.reads if is_of_packet(name)))
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
    """Compiled anew when the record in the replica is another."""

    def __init__(self) -> None:
        # By site, with the fallback that it was compiled with.
        self._compiled: dict[str, tuple[bytes, SitePolicy]] = {}

    def for_site(self, site: SiteRecord, record: PolicyRecord) -> SitePolicy:
        known = self._compiled.get(site.site_id)
        if known is not None:
            known_fallback, compiled = known
            same_policy = compiled.version == record.version and compiled.id == record.policy_id
            if same_policy and known_fallback == site.fallback:
                return compiled
        fallback = json.loads(site.fallback) if site.fallback else None
        compiled = SitePolicy(record, compile_policy(json.loads(record.document), fallback=fallback))
        if known is None and len(self._compiled) >= MAX_COMPILED_POLICIES:
            # The oldest makes room: with a few sites too many, most of what is asked for is there all the same.
            del self._compiled[next(iter(self._compiled))]
        self._compiled[site.site_id] = (site.fallback, compiled)
        # Python's collector need not look through them again and again: 1,700 policies would hold up every request for
        # 0.2 s. Nothing in them refers back, so what is dropped is freed all the same.
        gc.freeze()
        return compiled
