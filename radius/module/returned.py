"""What an Access-Accept gives the NAS to return with its accounting: which decision it was, and whose session."""

import hashlib
import hmac

from nac.session_class import class_of
from radius.module.radiusd_api import Update
from radius.module.request import AccessRequest

_CUI_OCTETS = 16


def returned(request: AccessRequest, at: int, identity: str, cui_key: bytes) -> tuple[Update, ...]:
    """Class always; Chargeable-User-Identity where the NAS asks for it with one of its own (RFC 4372 2.1)."""
    given = ("Class", "+=", class_of(at))
    if "Chargeable-User-Identity" not in request.attributes or not cui_key:
        return (given,)
    return given, ("Chargeable-User-Identity", ":=", f"0x{_cui(identity, cui_key).encode().hex()}")


def _cui(identity: str, key: bytes) -> str:
    """The same for a user at each login, another at each tenant, and it tells nobody who it is."""
    return hmac.new(key, identity.strip().casefold().encode(), hashlib.sha256).hexdigest()[: 2 * _CUI_OCTETS]
