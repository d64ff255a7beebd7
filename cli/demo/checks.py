"""Form of a check, and the words for its results."""

from collections.abc import Callable
from dataclasses import dataclass

from cli.demo.evidence import Evidence
from cli.demo.responses import RadiusResponse
from cli.demo.tools import EapolResult

_VERDICTS = {
    "Access-Accept": "permit",
    "Access-Reject": "reject",
    "Accounting-Response": "acknowledged",
}
SILENCE = "silence"


@dataclass(frozen=True, slots=True)
class Observation:
    """Result of the tool, in the board's words."""

    got: str
    seconds: float


def _no_text(evidence: Evidence) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Check:
    tenant: str
    name: str
    # Description of the request.
    sent: str
    # Expected text of `act` and `tell` together.
    expected: str
    # Expected reason in auth_log; "" if nothing must be logged.
    reason: str
    # Sends the requests, marked with the text in its argument.
    act: Callable[[str], Observation]
    # Text that the database adds to the tool's result.
    tell: Callable[[Evidence], str] = _no_text
    # Expected rows of auth_log and accounting_log.
    records: int = 1
    # Seconds from the request until the cell writes them, by design; too long for every start.
    recorded_after_seconds: float = 0

    @property
    def takes_long(self) -> bool:
        return self.recorded_after_seconds > 0


def describe_response(answer: RadiusResponse | None) -> str:
    """Text such as "permit VLAN 20", "reject" or "silence"."""
    if answer is None:
        return SILENCE
    verdict = _VERDICTS.get(answer.code, answer.code)
    vlan = f" VLAN {answer.vlan}" if answer.vlan else ""
    timeout = answer.first("Session-Timeout")
    return f"{verdict}{vlan}{f', {timeout} s' if timeout else ''}"


def describe_eap_result(result: EapolResult, *, keys: bool = True) -> str:
    """Like `words`, with the EAP result. Several equal responses are "4 x permit ..."."""
    texts = list(dict.fromkeys(describe_response(answer) for answer in result.answers)) or [SILENCE]
    count = f"{len(result.answers)} x " if len(result.answers) > 1 else ""
    text = count + " and ".join(texts)
    if any(answer.code == "Access-Reject" for answer in result.answers):
        return f"{text}, {'EAP-Failure' if result.access_reject_has_eap_failure else 'no EAP-Failure'}"
    if keys and result.answers:
        text += ", keys" if result.mppe_ok else ", no keys"
    return text if result.success or not result.answers else f"{text}, but the supplicant failed"
