"""What a person has to do: which NASes change over by themselves, which together, in which steps."""

from dataclasses import dataclass
from typing import Literal

from nac.secret_rotations.repository import RotationNas
from nac.secret_rotations.service import RotationStatus

ChangeWay = Literal["alone", "together", "watched"]

_TOGETHER = (
    "It shares its source address with others: radiusd keeps one secret of an address for a second. While both are in "
    "use there, packets that come in the same second as one with the other secret are dropped and must be sent again. "
    "Change all that send from this address within minutes."
)
_WATCHED = (
    "Its requests need no Message-Authenticator. Those with a password show its secret, those by CHAP do not: they are "
    "answered with the secret that was shown last, by accounting, say. Change it while you watch, and have it send "
    "accounting; better, have it send Message-Authenticator."
)
_ALONE = "Change it at any time within the window. Its next packet with the new secret is answered with that."


@dataclass(frozen=True, slots=True)
class RotationAdvice:
    way: ChangeWay
    told: str


def advise_nas(nas: RotationNas) -> RotationAdvice:
    if not nas.signs:
        return RotationAdvice("watched", _WATCHED)
    if nas.is_shared:
        return RotationAdvice("together", _TOGETHER)
    return RotationAdvice("alone", _ALONE)


def list_steps(status: RotationStatus, state: str) -> list[str]:
    """By a person, in this order."""
    if state in ("finished", "cancelled"):
        return ["Nothing is to be done: one secret is in force."]
    whose = f"NAS {status.nas.name}" if status.nas else "the tenant"
    of = " --nas NAME" if status.nas else ""
    at_end = (
        "At the end of the window the old secret ends by itself, whoever has it."
        if status.rotation.at_end == "finish"
        else "At the end of the window both go on, and an alarm stands until you finish it, or cancel it."
    )
    waits = ["Wait until the state is open: the cell does not take the new secret yet."] if state == "preparing" else []
    return [
        *waits,
        f"Read the secret of {whose} that is `next`: ./admit secret-rotation reveal{of}.",
        "NASes of the way `alone`: change each when it suits; nothing is dropped. On a NAS, change the secret for "
        "authentication, for accounting and for dynamic authorization (CoA) together.",
        "NASes of the way `together`: change all that share an address in one go. Which do is known once heard.",
        "NASes of the way `watched`: change them one by one, and look for their next decision in the log.",
        "NASes of RadSec have nothing to change: TLS says who they are, and their secret is 'radsec' (RFC 6614).",
        f"Look at the list until no NAS is `old` or `back`: ./admit secret-rotation nases{of}. "
        "One that is `unseen` was not heard with either: ask it.",
        f"Finish: ./admit secret-rotation finish{of}. {at_end}",
    ]
