"""MAC authentication bypass (MAB): does the switch send what it should as the password of a MAC address?

Switches send MAB by PAP, CHAP, MS-CHAP or EAP-MD5, the address in any notation. The password proves no device: it
shows that the switch itself has sent the request, and no person who typed a MAC address as a name.
"""

import hmac
from collections.abc import Callable

from nac.mac import normalise_mac
from nac.replica.records import NasRecord, SlotRecord, mab_password_context
from radius.module.request import AccessRequest

# Opens what is sealed with the cell's key for a context.
Open = Callable[[bytes, str], str]

# Attributes by which radiusd compares the password, and its Auth-Type. Where both of MS-CHAP come, rlm_mschap compares
# the first of these.
CHALLENGED = (("CHAP-Password", "CHAP"), ("MS-CHAP-Response", "MS-CHAP"), ("MS-CHAP2-Response", "MS-CHAP"))
_FORMS = {"mac": "the MAC address", "fixed": "its fixed text", "secret": "its shared secret", "empty": "no text"}


def form_of(nas: NasRecord | None) -> str:
    """What the NAS sends as the password: mac, fixed, secret or empty."""
    return nas.mab_password if nas is not None else "mac"


def expected_password(request: AccessRequest, slot: SlotRecord, nas: NasRecord | None, open_sealed: Open) -> str | None:
    """The password that the NAS should send, of a MAC address in the notation of its name; None where it is unknown."""
    form = form_of(nas)
    if nas is None or form == "mac":
        return request.user_name
    if form == "empty":
        return ""
    if form == "fixed":
        sealed = nas.sealed_mab_password
        return open_sealed(sealed, mab_password_context(nas.nas_id)) if sealed else None
    # While the secret changes over, the one that the NAS has shown.
    of_request = (nas.secrets or slot.secrets)[1 if "new" in request.proof else 0 :][:1]
    return next((open_sealed(secret.sealed, secret.context) for secret in of_request), None)


def is_mab_password(request: AccessRequest, expected: str, nas: NasRecord | None) -> bool:
    """Whether the request's User-Password is as `expected`; a MAC address in any notation."""
    password = request.attributes.get("User-Password", "")
    if form_of(nas) != "mac":
        return hmac.compare_digest(password.encode(), expected.encode())
    if not password:
        return request.attributes.get("Service-Type") == "Call-Check"
    return normalise_mac(password) == normalise_mac(expected)


def password_detail(nas: NasRecord | None) -> str:
    """The detail of a refusal because of the password."""
    return f"Admit expects {_FORMS[form_of(nas)]} as the password from this NAS"
