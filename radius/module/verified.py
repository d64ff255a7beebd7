"""What the verifier has said of a name and its password, as radiusd hands it on."""

from nac.identities.verifier_messages import UnreadableResult, VerificationResult, decode_result
from nac.packet_values import Values
from nac.replica.records import SlotRecord
from nac.replica.store import ReplicaView
from radius.module.request import Attributes

_SILENT = VerificationResult("verifier-unavailable")


def verifier_answer(control: Attributes) -> VerificationResult | None:
    """None where the verifier was not asked."""
    pieces = control.get("Admit-Answer")
    if not pieces:
        return _SILENT if "Proxy-To-Realm" in control else None
    try:
        return decode_result(pieces)
    except UnreadableResult as error:
        return VerificationResult("verifier-unavailable", str(error))


def user_facts(name: str, answer: VerificationResult | None, view: ReplicaView, slot: SlotRecord) -> dict[str, Values]:
    """What rules may ask about a user whose password held: of the source that knows it, else of the tenant's own."""
    if answer is not None and answer.source:
        return {
            "user.name": (answer.name,),
            "user.source": (answer.source,),
            "user.group": answer.groups,
            **{f"user.attribute.{name}": values for name, values in answer.attributes.items()},
        }
    user = view.user(slot.tenant, name)
    return {} if user is None else {"user.name": (user.name,), "user.group": user.groups}
