"""What a self-test says: of each check what was sent, what should come, what came, and why."""

from dataclasses import asdict, dataclass
from typing import Any

from nac.models import AuthLog
from nac.reasons import get_reason
from nac.self_tests.radius_client import PacketCode, RadiusReply

SILENCE = "silence"
_REPLY_WORDS: dict[int, str] = {
    PacketCode.ACCESS_ACCEPT: "permit",
    PacketCode.ACCESS_REJECT: "reject",
    PacketCode.ACCOUNTING_RESPONSE: "acknowledged",
}


@dataclass(frozen=True, slots=True)
class BoardRow:
    name: str
    sent: str
    expected: str
    got: str
    # Why this is to be expected.
    because: str
    # Of the cell's decision: code, title and, of a reject, what to do about it.
    reason: str
    why: str
    rule: str
    milliseconds: int
    ok: bool

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Observation:
    """What our NAS and the device behind it saw."""

    reply: RadiusReply | None
    milliseconds: int
    # What the device has against the server.
    complaint: str = ""


def describe_reply(reply: RadiusReply | None) -> str:
    if reply is None:
        return SILENCE
    verdict = _REPLY_WORDS.get(reply.code, f"code {reply.code}")
    return f"{verdict} VLAN {reply.vlan}" if reply.vlan else verdict


def compare_reply(
    *,
    name: str,
    sent: str,
    expected: str,
    because: str,
    reasons: frozenset[str],
    seen: Observation,
    decision: AuthLog | None,
    is_logged: bool,
) -> BoardRow:
    """`reasons` are those that the cell may give, all where there are none; `is_logged`: it must have decided."""
    got = describe_reply(seen.reply)
    if seen.complaint and got.startswith("permit"):
        got = f"{got}, but the device refuses: {seen.complaint}"
    told = decision.reason if decision else ""
    ok = got == expected and (decision is not None) == is_logged and (not reasons or told in reasons)
    reason = get_reason(told) if told else None
    why = " ".join(part for part in ((decision.detail if decision else ""), seen.complaint) if part)
    if reason is not None:
        why = " ".join(part for part in (f"{reason.title}.", "" if ok else reason.advice, why) if part)
    elif got == SILENCE and expected != SILENCE:
        why = "No answer came: does the cell run, and does its radiusd listen? See ./admit status."
    elif is_logged:
        why = "It was answered, and the cell's log does not say so: its journal may not be shipped."
    return BoardRow(
        name=name,
        sent=sent,
        expected=expected,
        got=got,
        because=because,
        reason=told,
        why=why,
        rule=decision.rule_name if decision else "",
        milliseconds=seen.milliseconds,
        ok=ok,
    )
