"""Instructions for a rotation: how a user changes each NAS, and in which order."""

from dataclasses import dataclass
from typing import Literal

from nac.kit.advice import Advice, NextStep
from nac.tenancy.secret_rotations.repository import RotationNas
from nac.tenancy.secret_rotations.service import RotationStatus

ChangeWay = Literal["alone", "together", "watched"]

_TOGETHER = (
    "It shares its source address with other NASes. radiusd remembers one secret per address for a"
    " second, so packets with the other secret in that second are dropped and must be repeated. Change"
    " all NASes of this address within minutes."
)
_WATCHED = (
    "Its requests need no Message-Authenticator. Requests with a password reveal their secret, CHAP"
    " requests do not. Admit answers those with the secret last seen, for example in accounting. Change"
    " it while you watch the log, and have it send accounting or, better, Message-Authenticator."
)
_ALONE = "Change it at any time within the window. Admit answers its next packet with the new secret."


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
    """Return the steps for the user, in order."""
    if state in ("finished", "cancelled"):
        return ["Nothing to do: only one secret is in force."]
    whose = f"NAS {status.nas.name}" if status.nas else "the tenant"
    of = {"nas": status.nas.name} if status.nas else {}
    at_end = (
        "At the end of the window, the old secret stops working automatically, even if NASes still use it."
        if status.rotation.at_end == "finish"
        else "At the end of the window, both secrets continue to work, and an alarm remains until you finish"
        " or cancel the rotation."
    )
    waits = (
        ["Wait until the state is open: the cell does not accept the new secret yet."] if state == "preparing" else []
    )
    return [
        *waits,
        Advice(f"Get the next secret of {whose}.", NextStep("revealRadiusSecret", {**of, "next": "true"})),
        "NASes of the way `alone`: change each at any time; no packet is dropped. Change the secrets for"
        " authentication, accounting and dynamic authorization (CoA) together.",
        "NASes of the way `together`: change all with the same address at once. Admit learns from"
        " requests which these are.",
        "NASes of the way `watched`: change them one by one, and check their next decision in the log.",
        "NASes with RadSec need no change: TLS identifies them, and their secret is 'radsec' (RFC 6614).",
        Advice(
            "A NAS that is `unseen` has sent nothing with either secret: check it. Repeat until no NAS is `old` or"
            " `back`. List them.",
            NextStep("listSecretRotationNases", of),
        ),
        Advice(f"{at_end} Finish.", NextStep("finishSecretRotation", of)),
    ]
