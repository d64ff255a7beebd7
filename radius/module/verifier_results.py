"""The verifier's result for a name and password, as radiusd passes it to the module."""

from nac.cellformat.packet_values import Values
from nac.cellformat.replica.records import UserRecord
from nac.inventory.identity_sources.verifier_messages import UnreadableResult, VerificationResult, decode_result
from radius.module.request import Attributes

_UNAVAILABLE = VerificationResult("verifier-unavailable")


def read_verifier_result(control: Attributes) -> VerificationResult | None:
    """Result of the verifier; None if the request did not use the verifier."""
    pieces = control.get("Admit-Answer")
    if not pieces:
        return _UNAVAILABLE if "Proxy-To-Realm" in control else None
    try:
        return decode_result(pieces)
    except UnreadableResult as error:
        return VerificationResult("verifier-unavailable", str(error))


def user_facts(answer: VerificationResult | None, user: UserRecord | None) -> dict[str, Values]:
    """Attributes of a user with a correct password, from the identity source or the tenant's own record."""
    if answer is not None and answer.source:
        return {
            "user.name": (answer.name,),
            "user.source": (answer.source,),
            "user.group": answer.groups,
            **{f"user.attribute.{name}": values for name, values in answer.attributes.items()},
        }
    return {} if user is None else {"user.name": (user.name,), "user.group": user.groups}
