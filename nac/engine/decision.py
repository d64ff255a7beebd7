"""What goes into a decision and what comes out of it."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from nac.engine.conditions import Value
from nac.engine.matchers import Attributes, Scalar
from nac.engine.outcome import Verdict
from nac.vendors import AttributeTemplate, PoolAssignment, ReplyPair

# What is in monitor mode, "" where nothing is.
Monitored = Literal["", "rule", "site"]


class Request(NamedTuple):
    """What is known of a device that asks to join.

    Every value is a tuple, of one element where the attribute has one value. MAC and IP addresses come in normal form
    (`nac.mac.normalise_mac`, `str(ipaddress.ip_address(...))`). Untrusted input goes through `read_request`.
    """

    attributes: Attributes
    # Epoch seconds; the engine reads no clock.
    at: int


@dataclass(frozen=True, slots=True)
class ComparisonTrace:
    place: str
    attribute: str
    operator: str
    value: Value
    # The values the request carried; () where the attribute is missing.
    seen: tuple[Scalar, ...]
    matched: bool


@dataclass(frozen=True, slots=True)
class RuleTrace:
    rule_id: str
    rule_name: str
    pinned: bool
    matched: bool
    # The comparisons that settled it: those that failed where it did not match, those that held where it did.
    because: tuple[ComparisonTrace, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """The zero value denies; a decision that nobody made is an internal error.

    In monitor mode `verdict`, `reason` and the rule are what would decide; `vlan` and `reply` are what is given.
    """

    verdict: Verdict = "deny"
    reason: str = "internal-error"
    rule_id: str = ""
    rule_name: str = ""
    vlan: str = ""
    # (attribute, operator, value) as rlm_python3 takes them, in the form of the NAS's vendor.
    reply: tuple[ReplyPair, ...] = ()
    trace: tuple[RuleTrace, ...] = ()
    # What the reason does not tell.
    detail: str = ""
    monitored: Monitored = ""
    # Further attributes of the reply, to be completed with the passphrase of the endpoint.
    passphrase: tuple[AttributeTemplate, ...] = ()
    # Without a passphrase the verdict is a deny (`no-passphrase`).
    needs_passphrase: bool = False
    # Of which the cell gives addresses; which ones only it knows.
    pools: tuple[PoolAssignment, ...] = ()

    @property
    def permitted(self) -> bool:
        """Whether the device is admitted."""
        return self.verdict != "deny" or bool(self.monitored)
