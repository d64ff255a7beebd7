"""Definition of a check, and the texts of results."""

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
    """Result of a test tool, as text for the board."""

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
    # Expected text: the results of `act` and `tell` together.
    expected: str
    # Expected reason code in auth_log; "" if Admit must log nothing.
    reason: str
    # Sends the requests. The requests contain the text of the argument, which identifies their log rows.
    act: Callable[[str], Observation]
    # Returns text from the rows in the database, which is added to the tool's result.
    tell: Callable[[Evidence], str] = _no_text
    # Expected rows of auth_log and accounting_log.
    records: int = 1
    # Seconds until the cell writes the rows, if it intentionally waits. Such a check does not run at each start.
    recorded_after_seconds: float = 0

    @property
    def takes_long(self) -> bool:
        return self.recorded_after_seconds > 0


def describe_response(answer: RadiusResponse | None) -> str:
    """Return a text such as "permit VLAN 20", "reject" or "silence"."""
    if answer is None:
        return SILENCE
    verdict = _VERDICTS.get(answer.code, answer.code)
    vlan = f" VLAN {answer.vlan}" if answer.vlan else ""
    timeout = answer.first("Session-Timeout")
    return f"{verdict}{vlan}{f', {timeout} s' if timeout else ''}"


def describe_eap_result(result: EapolResult, *, keys: bool = True) -> str:
    """Return a text like `describe_response`, with the EAP result. Several equal responses are "4 x permit ..."."""
    texts = list(dict.fromkeys(describe_response(answer) for answer in result.answers)) or [SILENCE]
    count = f"{len(result.answers)} x " if len(result.answers) > 1 else ""
    text = count + " and ".join(texts)
    if any(answer.code == "Access-Reject" for answer in result.answers):
        return f"{text}, {'EAP-Failure' if result.access_reject_has_eap_failure else 'no EAP-Failure'}"
    if keys and result.answers:
        text += ", keys" if result.mppe_ok else ", no keys"
    return text if result.success or not result.answers else f"{text}, but the supplicant failed"
