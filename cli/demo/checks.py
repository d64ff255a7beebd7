"""The form of a check, and how what was seen is put into the words that it is compared with."""

from collections.abc import Callable
from dataclasses import dataclass

from cli.demo.answers import Answer
from cli.demo.evidence import Evidence
from cli.demo.tools import EapolResult

_VERDICTS = {
    "Access-Accept": "permit",
    "Access-Reject": "reject",
    "Accounting-Response": "acknowledged",
}
SILENCE = "silence"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the tool saw, in the board's words."""

    got: str
    seconds: float


def _nothing(evidence: Evidence) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Check:
    tenant: str
    name: str
    # What is particular about the request.
    sent: str
    # What `act` and `tell` must say together, to the letter.
    expected: str
    # That auth_log must name; "" where nothing must be logged.
    reason: str
    # Sends the requests, marked with the text it is given.
    act: Callable[[str], Seen]
    # What the database adds to what the tool saw.
    tell: Callable[[Evidence], str] = _nothing
    # Rows of auth_log and accounting_log.
    records: int = 1
    # How long after the request the cell writes them, by design: more than a person waits for at every start.
    recorded_after_seconds: float = 0

    @property
    def takes_long(self) -> bool:
        return self.recorded_after_seconds > 0


def words(answer: Answer | None) -> str:
    """ "permit VLAN 20", "reject", "silence"."""
    if answer is None:
        return SILENCE
    verdict = _VERDICTS.get(answer.code, answer.code)
    vlan = f" VLAN {answer.vlan}" if answer.vlan else ""
    timeout = answer.first("Session-Timeout")
    return f"{verdict}{vlan}{f', {timeout} s' if timeout else ''}"


def eap_words(result: EapolResult, *, keys: bool = True) -> str:
    """As `words`, with what an EAP conversation adds; several equal answers as "4 x permit ..."."""
    told = list(dict.fromkeys(words(answer) for answer in result.answers)) or [SILENCE]
    count = f"{len(result.answers)} x " if len(result.answers) > 1 else ""
    text = count + " and ".join(told)
    if any(answer.code == "Access-Reject" for answer in result.answers):
        return f"{text}, {'EAP-Failure' if result.access_reject_has_eap_failure else 'no EAP-Failure'}"
    if keys and result.answers:
        text += ", keys" if result.mppe_ok else ", no keys"
    return text if result.success or not result.answers else f"{text}, but the supplicant failed"
