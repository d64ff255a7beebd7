"""Compiled policies and their outcomes, which the module prepares once instead of for each packet."""

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

# Limit of compiled policies in the cache. A site with its own fallback or time zone needs its own entry.
MAX_COMPILED_POLICIES = 2_000
SESSION_COUNTS = frozenset(("session.count.endpoint", "session.count.user"))


class Outcome(NamedTuple):
    # Whether Admit admits the device.
    permitted: bool
    reason: str
    detail: str = ""
    rule_id: str = ""
    rule_name: str = ""
    policy_id: str = ""
    policy_version: int = 0
    vlan: str = ""
    reply: tuple[ReplyPair, ...] = ()
    # Verdict of the policy. Monitor mode does not enforce it.
    verdict: Verdict = "deny"
    monitored: MonitorSource = ""
    # Attributes for the endpoint's passphrase, and whether the reply must contain a passphrase. If it must, but no
    # passphrase is stored, the verdict is a deny.
    passphrase: tuple[AttributeTemplate, ...] = ()
    needs_passphrase: bool = False
    # Attributes to send, with secrets such as the passphrase. Never logged; `reply` is logged instead.
    sent: tuple[ReplyPair, ...] = ()
    # Pools that must provide an address, and the claimed addresses: (pool id, number, grant).
    pools: tuple[PoolAssignment, ...] = ()
    addresses: tuple[tuple[str, int, int], ...] = ()

    def refused(self, reason: str, detail: str = "", *, is_enforced: bool = False) -> "Outcome":
        """Return a copy of the outcome that has the verdict deny.

        In monitor mode, Admit only logs the deny, unless `is_enforced` is true.
        """
        if self.monitored and not is_enforced:
            return self._replace(verdict="deny", reason=reason, detail=detail)
        return Outcome(False, reason, detail, self.rule_id, self.rule_name, self.policy_id, self.policy_version)


class SitePolicy:
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
        # Hash of the document, to compare documents quickly. Python computes the hash of a bytes object only once.
        self.document_hash = hash(record.document)
        self.policy = policy.without_trace()
        # Attributes that the policy reads from the packet.
        reads = sorted(policy.reads)
        self.packet_reads = tuple(filter(is_packet_attribute, reads))
        # Attributes that the policy reads from a device's evidence.
        self.endpoint_reads = tuple(filter(is_endpoint_attribute, reads))
        # Counts of live sessions that the policy reads.
        self.session_reads = policy.reads & SESSION_COUNTS
        # Certificate fields that the policy reads and for which the certificate must be parsed.
        self.certificate_reads = tuple(filter(is_certificate_field, reads))
        # Outcomes by id() of the decision: `decide` returns the same object for a rule and vendor as long as the policy
        # lives.
        self._outcomes: dict[int, Outcome] = {}

    def outcome(self, decision: Decision) -> Outcome:
        outcome = self._outcomes.get(id(decision))
        if outcome is None:
            outcome = self._outcomes[id(decision)] = self._make(decision)
        return outcome

    def deny_undecided(self, vendor: Values, reason: str, detail: str = "") -> Outcome:
        """Deny access without an evaluation of the rules. If the site is in monitor mode, the deny is only logged."""
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


# Policy of a site that has no published policy.
NO_POLICY = PolicyRecord("", "", 0, b"{}")


class CompiledPolicies:
    """Compiles a policy again when its replica record changes. Sites with equal settings share a compiled policy."""

    def __init__(self) -> None:
        # Compiled policies by policy id and by the site's fallback, time zone and monitor mode.
        self._compiled: dict[tuple[str, bytes, str, bool], SitePolicy] = {}

    def for_site(self, site: SiteRecord, record: PolicyRecord) -> SitePolicy:
        key = record.policy_id, site.fallback, site.time_zone, site.monitor
        known = self._compiled.get(key)
        # A restored database may give the same version number to another document.
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
            # Drop the oldest policy: if the cache is slightly too small, most requests still find their policy.
            del self._compiled[next(iter(self._compiled))]
        compiled = self._compiled[key] = SitePolicy(record, policy)
        # Exclude the policies from garbage collection: scanning 1,700 policies would delay every request by 0.2 s.
        # Policies have no reference cycles, so a dropped policy is still freed.
        gc.freeze()
        return compiled
