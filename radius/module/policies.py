"""Compiled policies and the prepared outcomes of their decisions, created once instead of for each packet."""

import gc
import json
from typing import NamedTuple

from nac.cellformat.endpoint_facts import is_endpoint_attribute
from nac.cellformat.packet_values import Values, is_packet_attribute
from nac.cellformat.replica.records import PolicyRecord, SiteRecord
from nac.engine import Decision, Policy, compile_policy
from nac.engine.decision import MonitorSource
from nac.engine.outcome import Verdict
from nac.engine.vendors import AttributeTemplate, PoolAssignment, ReplyPair
from radius.module.certificate_fields import is_certificate_field

# Cache of the cell's compiled policies; a site with its own fallback or time zone needs another entry.
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
    # The policy's verdict; in monitor mode it is not enforced.
    verdict: Verdict = "deny"
    monitored: MonitorSource = ""
    # Whether the reply needs the endpoint's passphrase. Without one the verdict may become a deny.
    passphrase: tuple[AttributeTemplate, ...] = ()
    needs_passphrase: bool = False
    # Reply attributes with secrets, such as the passphrase: sent, never logged. `reply` is logged.
    sent: tuple[ReplyPair, ...] = ()
    # Pools to take addresses from, and the claims: (pool id, number, grant).
    pools: tuple[PoolAssignment, ...] = ()
    addresses: tuple[tuple[str, int, int], ...] = ()

    def refused(self, reason: str, detail: str = "", *, is_enforced: bool = False) -> "Outcome":
        """The outcome with its verdict turned to a deny. Monitor mode only logs it, unless `is_enforced`."""
        if self.monitored and not is_enforced:
            return self._replace(verdict="deny", reason=reason, detail=detail)
        return Outcome(False, reason, detail, self.rule_id, self.rule_name, self.policy_id, self.policy_version)


class SitePolicy:
    """The policy of a site."""

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
        # Bytes cache their hash, so comparisons are cheap.
        self.document_hash = hash(record.document)
        self.policy = policy.without_trace()
        # Attributes of the packet for its conditions.
        reads = sorted(policy.reads)
        self.packet_reads = tuple(filter(is_packet_attribute, reads))
        # Attributes from evidence.
        self.endpoint_reads = tuple(filter(is_endpoint_attribute, reads))
        # Attributes of live sessions.
        self.session_reads = policy.reads & SESSION_COUNTS
        # Certificate fields that need parsing.
        self.certificate_reads = tuple(filter(is_certificate_field, reads))
        # By identity: `decide` returns the same object for a rule and vendor, for the life of the policy.
        self._outcomes: dict[int, Outcome] = {}

    def outcome(self, decision: Decision) -> Outcome:
        outcome = self._outcomes.get(id(decision))
        if outcome is None:
            outcome = self._outcomes[id(decision)] = self._make(decision)
        return outcome

    def deny_undecided(self, vendor: Values, reason: str, detail: str = "") -> Outcome:
        """A deny without evaluating the rules; only logged if the site is in monitor mode."""
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


# Policy of a site without a published one.
NO_POLICY = PolicyRecord("", "", 0, b"{}")


class CompiledPolicies:
    """Compiles a policy again when its replica record changes. Sites with equal settings share one."""

    def __init__(self) -> None:
        # By policy and the site's fallback, time zone and monitor mode.
        self._compiled: dict[tuple[str, bytes, str, bool], SitePolicy] = {}

    def for_site(self, site: SiteRecord, record: PolicyRecord) -> SitePolicy:
        key = record.policy_id, site.fallback, site.time_zone, site.monitor
        known = self._compiled.get(key)
        # A restored database may give the same number to another document.
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
            # Drop the oldest: with a few sites too many, most requests still hit the cache.
            del self._compiled[next(iter(self._compiled))]
        compiled = self._compiled[key] = SitePolicy(record, policy)
        # Freeze them for the garbage collector: scanning 1,700 policies would delay every request by 0.2 s. They have
        # no reference cycles, so dropped ones are still freed.
        gc.freeze()
        return compiled
