"""Compiled policies, and for each of their decisions what the module makes of it: prepared once, not per packet."""

import gc
import json
from typing import NamedTuple

from nac.endpoint_facts import is_endpoint_attribute
from nac.engine import Decision, Policy, compile_policy
from nac.engine.decision import MonitorSource
from nac.engine.outcome import Verdict
from nac.packet_values import Values, is_packet_attribute
from nac.replica.records import PolicyRecord, SiteRecord
from nac.vendors import AttributeTemplate, PoolAssignment, ReplyPair
from radius.module.certificate_fields import is_field

# Compiled policies of the tenants of one cell; a site with a fallback or time zone of its own holds one more.
MAX_COMPILED_POLICIES = 2_000
SESSION_COUNTS = frozenset(("session.count.endpoint", "session.count.user"))


class Outcome(NamedTuple):
    # Whether the device is admitted.
    permitted: bool
    reason: str
    detail: str = ""
    rule_id: str = ""
    rule_name: str = ""
    policy_id: str = ""
    policy_version: int = 0
    vlan: str = ""
    reply: tuple[ReplyPair, ...] = ()
    # As policy has it; in monitor mode not what was done.
    verdict: Verdict = "deny"
    monitored: MonitorSource = ""
    # Of the reply, to be completed with the passphrase of the endpoint, without which the verdict may be a deny.
    passphrase: tuple[AttributeTemplate, ...] = ()
    needs_passphrase: bool = False
    # The reply with what the log must not show.
    sent: tuple[ReplyPair, ...] = ()
    # Of which it is to get addresses, and what it got: (pool id, number, grant).
    pools: tuple[PoolAssignment, ...] = ()
    addresses: tuple[tuple[str, int, int], ...] = ()

    def refused(self, reason: str, detail: str = "") -> "Outcome":
        """With the verdict turned to a deny, which monitor mode still only tells."""
        if self.monitored:
            return self._replace(verdict="deny", reason=reason, detail=detail)
        return Outcome(False, reason, detail, self.rule_id, self.rule_name, self.policy_id, self.policy_version)


class SitePolicy:
    """What decides at a site."""

    __slots__ = (
        "_outcomes",
        "certificate_reads",
        "document_hash",
        "endpoint_reads",
        "id",
        "packet_reads",
        "policy",
        "session_reads",
        "version",
    )

    def __init__(self, record: PolicyRecord, policy: Policy) -> None:
        self.id = record.policy_id
        self.version = record.version
        # Bytes keep their hash: to compare it costs next to nothing.
        self.document_hash = hash(record.document)
        self.policy = policy.without_trace()
        # Attributes of the packet that its conditions ask for.
        reads = sorted(policy.reads)
        self.packet_reads = tuple(filter(is_packet_attribute, reads))
        # Of what was found out about the device.
        self.endpoint_reads = tuple(filter(is_endpoint_attribute, reads))
        # Of the sessions that are live.
        self.session_reads = policy.reads & SESSION_COUNTS
        # Fields of the certificate that it must be taken apart for.
        self.certificate_reads = tuple(filter(is_field, reads))
        # By identity: `decide` returns the same object for the same rule and vendor, which lives as long as the policy.
        self._outcomes: dict[int, Outcome] = {}

    def outcome(self, decision: Decision) -> Outcome:
        found = self._outcomes.get(id(decision))
        if found is None:
            found = self._outcomes[id(decision)] = self._make(decision)
        return found

    def unasked(self, vendor: Values, reason: str, detail: str = "") -> Outcome:
        """A deny because the rules cannot be asked; only told where the site is in monitor mode."""
        return self.outcome(self.policy.decisions.of(vendor, -1)).refused(reason, detail)

    def _make(self, decision: Decision) -> Outcome:
        return Outcome(
            decision.permitted,
            decision.reason,
            decision.detail,
            decision.rule_id,
            decision.rule_name,
            self.id,
            self.version,
            decision.vlan,
            decision.reply,
            decision.verdict,
            decision.monitored,
            decision.passphrase,
            decision.needs_passphrase,
            decision.reply,
            decision.pools,
        )


# What decides where nothing is published: nothing.
NO_POLICY = PolicyRecord("", "", 0, b"{}")


class Policies:
    """Compiled anew when the record in the replica is another. Sites that differ in nothing else share one."""

    def __init__(self) -> None:
        # By policy, and what sites make different: their fallback, time zone and monitor mode.
        self._compiled: dict[tuple[str, bytes, str, bool], SitePolicy] = {}

    def for_site(self, site: SiteRecord, record: PolicyRecord) -> SitePolicy:
        key = record.policy_id, site.fallback, site.time_zone, site.monitor
        known = self._compiled.get(key)
        # A database that was set back gives the same number to another document.
        if known is not None and known.version == record.version and known.document_hash == hash(record.document):
            return known
        fallback = json.loads(site.fallback) if site.fallback else None
        policy = compile_policy(
            json.loads(record.document),
            fallback=fallback,
            time_zone=site.time_zone,
            monitor=site.monitor,
            refuse_unreachable=False,
        )
        if known is None and len(self._compiled) >= MAX_COMPILED_POLICIES:
            # The oldest makes room: with a few sites too many, most of what is asked for is there all the same.
            del self._compiled[next(iter(self._compiled))]
        compiled = self._compiled[key] = SitePolicy(record, policy)
        # Python's collector need not look through them again and again: 1,700 policies would hold up every request for
        # 0.2 s. Nothing in them refers back, so what is dropped is freed all the same.
        gc.freeze()
        return compiled
