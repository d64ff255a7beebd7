"""Result of a self-test: for each check a row with the request, the expected response and the received response."""

from dataclasses import asdict, dataclass
from typing import Any

from nac.engine.reasons import get_reason
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT, ACCOUNTING_RESPONSE, RadiusPacket, read_vlan
from nac.models import AuthLog

SILENCE = "silence"
_REPLY_WORDS: dict[int, str] = {
    ACCESS_ACCEPT: "permit",
    ACCESS_REJECT: "reject",
    ACCOUNTING_RESPONSE: "acknowledged",
}


@dataclass(frozen=True, slots=True)
class BoardRow:
    name: str
    sent: str
    expected: str
    got: str
    # Reason why `expected` is the expected response.
    because: str
    # Reason code of the cell's decision, and explanation of the result (`why`).
    reason: str
    why: str
    rule: str
    milliseconds: int
    ok: bool

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Observation:
    """Results of a check that the simulated NAS and device observed."""

    reply: RadiusPacket | None
    milliseconds: int
    # Reason why the device rejects the server; "" if the device accepts it.
    complaint: str = ""


def describe_reply(reply: RadiusPacket | None) -> str:
    if reply is None:
        return SILENCE
    verdict = _REPLY_WORDS.get(reply.code, f"code {reply.code}")
    vlan = read_vlan(reply.octets)
    return f"{verdict} VLAN {vlan}" if vlan else verdict


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
    """Compare an observation with the expected response.

    `reasons` are the allowed reason codes; an empty set allows all codes. If `is_logged` is true, the cell must have
    logged a decision.
    """
    got = describe_reply(seen.reply)
    if seen.complaint and got.startswith("permit"):
        got = f"{got}, but the device rejects the server: {seen.complaint}"
    code = decision.reason if decision else ""
    ok = got == expected and (decision is not None) == is_logged and (not reasons or code in reasons)
    reason = get_reason(code) if code else None
    why = " ".join(part for part in ((decision.detail if decision else ""), seen.complaint) if part)
    if reason is not None:
        why = " ".join(part for part in (f"{reason.title}.", "" if ok else reason.advice, why) if part)
    elif got == SILENCE and expected != SILENCE:
        why = "No response. Check that the cell and its radiusd are running."
    elif is_logged:
        why = "The cell responded, but the log has no entry of this test. Check that the agent ships the journal."
    return BoardRow(
        name=name,
        sent=sent,
        expected=expected,
        got=got,
        because=because,
        reason=code,
        why=why,
        rule=decision.rule_name if decision else "",
        milliseconds=seen.milliseconds,
        ok=ok,
    )
