"""Instructions for a rotation of a RADIUS secret: how users change each NAS, and in which order."""

from dataclasses import dataclass
from typing import Literal

from nac.kit.advice import Advice, NextStep
from nac.tenancy.secret_rotations.repository import RotationNas
from nac.tenancy.secret_rotations.service import RotationStatus

ChangeWay = Literal["alone", "together", "watched"]

_TOGETHER = (
    "The NAS shares its source address with other NASes. Within one second, radiusd accepts only one secret from an"
    " address. radiusd drops packets with the other secret, and the NAS sends these packets again. Change all NASes of"
    " this address within minutes."
)
_WATCHED = (
    "The requests of the NAS have no Message-Authenticator. In a CHAP request, Admit cannot detect which secret the NAS"
    " uses. Admit then responds with the secret of an earlier request, for example of an accounting request. Configure"
    " the NAS to send Message-Authenticator, or at least accounting. Check the log while you change the secret."
)
_ALONE = (
    "Change the secret at any time before the rotation ends. radiusd can drop packets of this NAS for up to a second"
    " after the change, and the NAS sends these packets again."
)


@dataclass(frozen=True, slots=True)
class RotationAdvice:
    way: ChangeWay
    text: str


def advise_nas(nas: RotationNas) -> RotationAdvice:
    if not nas.signs:
        return RotationAdvice("watched", _WATCHED)
    if nas.is_shared:
        return RotationAdvice("together", _TOGETHER)
    return RotationAdvice("alone", _ALONE)


def list_steps(status: RotationStatus, state: str) -> list[str]:
    """Return the remaining steps of the rotation for the user, in order."""
    if state in ("finished", "cancelled"):
        return ["Nothing to do: radiusd accepts only one secret."]
    whose = f"NAS {status.nas.name}" if status.nas else "the tenant"
    of = {"nas": status.nas.name} if status.nas else {}
    at_end = (
        "At the end of the rotation, the old secret stops working automatically, even if NASes still use it."
        if status.rotation.at_end == "finish"
        else "After the planned end of the rotation, both secrets continue to work, and an alarm remains until you"
        " finish or cancel the rotation."
    )
    waits = (
        ["Wait until the state of the rotation is `open`. The cell does not accept the new secret yet."]
        if state == "preparing"
        else []
    )
    return [
        *waits,
        Advice(f"Get the next secret of {whose}.", NextStep("revealRadiusSecret", {**of, "next": "true"})),
        "See the mark of each NAS in the list of NASes. Change NASes that are marked `alone` at any time. On each NAS,"
        " change the secrets for authentication, accounting and dynamic authorization (CoA) together.",
        "If several NASes are marked `together` and have the same address, change all of them within minutes. Admit"
        " detects from requests which NASes share an address.",
        "Change the NASes that are marked `watched` one by one, and check the next decision of each NAS in the log.",
        "NASes with RadSec need no change: TLS identifies them, and their secret is 'radsec' (RFC 6614).",
        Advice(
            "A NAS in state `unseen` has not sent any request: check this NAS. Change further NASes until no NAS is"
            " in state `old` or `back`. List the NASes.",
            NextStep("listSecretRotationNases", of),
        ),
        Advice(f"{at_end} Finish the rotation.", NextStep("finishSecretRotation", of)),
    ]
