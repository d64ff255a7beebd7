"""Attributes of an Access-Accept that the NAS returns with its accounting, to find the decision and the user."""

import hashlib
import hmac

from nac.cellformat.replica.records import NasRecord, SlotRecord
from nac.cellformat.session_class import encode_class
from nac.engine.vendors import ReplyPair
from radius.module.radiusd_api import AttributeUpdate
from radius.module.request import AccessRequest

_CUI_OCTETS = 16


def accounting_attributes(
    request: AccessRequest, at: int, identity: str, cui_key: bytes
) -> tuple[AttributeUpdate, ...]:
    """Class always; Chargeable-User-Identity if the NAS requests it (RFC 4372 2.1)."""
    class_attribute = ("Class", "+=", encode_class(at))
    if "Chargeable-User-Identity" not in request.attributes or not cui_key:
        return (class_attribute,)
    identifier = _chargeable_user_identity(identity, cui_key).encode().hex()
    return class_attribute, ("Chargeable-User-Identity", ":=", f"0x{identifier}")


def nat_timeout(slot: SlotRecord, nas: NasRecord | None, sent: tuple[ReplyPair, ...]) -> tuple[AttributeUpdate, ...]:
    """Session-Timeout (RFC 2865 5.27) for a NAS behind NAT, if the tenant sets one and the policy gives none as short.

    No request can reach such a NAS, so its sessions end soon and the device authenticates again.
    """
    seconds = slot.nat_session_seconds
    if not seconds or nas is None or not nas.behind_nat:
        return ()
    values = {name.lower(): value for name, _, value in sent}
    policys = values.get("session-timeout", "")
    if policys.isdecimal() and 0 < int(policys) <= seconds:
        return ()
    again = () if "termination-action" in values or policys else (("Termination-Action", ":=", "RADIUS-Request"),)
    return ("Session-Timeout", ":=", str(seconds)), *again


def _chargeable_user_identity(identity: str, key: bytes) -> str:
    """A pseudonym: constant for a user of a tenant, different at each tenant, and it reveals no name."""
    return hmac.new(key, identity.strip().casefold().encode(), hashlib.sha256).hexdigest()[: 2 * _CUI_OCTETS]
