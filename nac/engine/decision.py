"""Types of the request and the decision of a policy. `nac.engine.policy.decide` makes the decision."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from nac.engine.conditions import JsonValue
from nac.engine.matchers import Attributes, Scalar
from nac.engine.outcome import Verdict
from nac.engine.vendors import AttributeTemplate, PoolAssignment, ReplyPair

# What is in monitor mode: the rule or the site; "" for neither.
MonitorSource = Literal["", "rule", "site"]


class PolicyRequest(NamedTuple):
    """The attributes of an access request.

    Each attribute has a tuple of values, with one element for a single value. MAC and IP addresses are normalised
    (`nac.kit.mac.normalise_mac`, `str(ipaddress.ip_address(...))`). Use `parse_request` for untrusted input.
    """

    attributes: Attributes
    # Time of the request in epoch seconds. The engine reads no clock.
    at: int


@dataclass(frozen=True, slots=True)
class ComparisonTrace:
    place: str
    attribute: str
    operator: str
    value: JsonValue
    # Values of the request; () if the attribute is missing.
    seen: tuple[Scalar, ...]
    matched: bool


@dataclass(frozen=True, slots=True)
class RuleTrace:
    rule_id: str
    rule_name: str
    pinned: bool
    matched: bool
    # The comparisons that decided whether the rule matched.
    because: tuple[ComparisonTrace, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a request. A `Decision` with default values is a deny with the reason "internal-error".

    In monitor mode, `verdict`, `reason` and the rule are only logged. Admit sends the `vlan` and `reply` of the
    fallback.
    """

    verdict: Verdict = "deny"
    reason: str = "internal-error"
    rule_id: str = ""
    rule_name: str = ""
    vlan: str = ""
    # (attribute, operator, value) for rlm_python3, with the attributes that the NAS's vendor uses.
    reply: tuple[ReplyPair, ...] = ()
    trace: tuple[RuleTrace, ...] = ()
    detail: str = ""
    monitored: MonitorSource = ""
    # Reply attributes that still need the passphrase of the endpoint.
    passphrase: tuple[AttributeTemplate, ...] = ()
    # Whether Admit denies if no passphrase is stored (reason `no-passphrase`).
    needs_passphrase: bool = False
    # Pools from which the cell assigns addresses.
    pools: tuple[PoolAssignment, ...] = ()

    @property
    def permitted(self) -> bool:
        return self.verdict != "deny" or bool(self.monitored)

    def refused(self, reason: str, detail: str = "", *, is_enforced: bool = False) -> "Decision":
        """Return a deny with this reason. In monitor mode, the deny is only logged, unless `is_enforced`."""
        if self.monitored and not is_enforced:
            return replace(self, verdict="deny", reason=reason, detail=detail)
        return Decision("deny", reason, self.rule_id, self.rule_name, trace=self.trace, detail=detail)
