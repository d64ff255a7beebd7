"""MAC authentication bypass (MAB): checks the password that the switch sends with a MAC address.

Switches send MAB by PAP, CHAP, MS-CHAPv2 or EAP-MD5, with the address in any notation. The password does not prove
the device's identity. The password only proves that the switch created the request. Without the MAB password, a
person could type a MAC address as user name.
"""

import hmac
from collections.abc import Callable

from nac.cellformat.replica.records import NasRecord, SlotRecord, mab_password_context
from nac.kit.mac import normalise_mac
from radius.module.request import AccessRequest

# Function that decrypts a text. Arguments: the text, encrypted with the cell's key, and its context.
SealedTextOpener = Callable[[bytes, str], str]

_FORM_NAMES = {"mac": "the MAC address", "fixed": "its fixed text", "secret": "its shared secret", "empty": "no text"}


def password_form(nas: NasRecord | None) -> str:
    """Kind of the MAB password that the NAS sends: mac, fixed, secret or empty."""
    return nas.mab_password if nas is not None else "mac"


def expected_password(
    request: AccessRequest, slot: SlotRecord, nas: NasRecord | None, open_sealed: SealedTextOpener
) -> str | None:
    """Password that the NAS should send; None if the password is unknown.

    If the password is the MAC address, the result has the notation of User-Name.
    """
    form = password_form(nas)
    if nas is None or form == "mac":
        return request.user_name
    if form == "empty":
        return ""
    if form == "fixed":
        sealed = nas.sealed_mab_password
        return open_sealed(sealed, mab_password_context(nas.nas_id)) if sealed else None
    # During a rotation, use the secret with which the NAS made this request.
    of_request = (nas.secrets or slot.secrets)[1 if "new" in request.proof else 0 :][:1]
    return next((open_sealed(secret.sealed, secret.context) for secret in of_request), None)


def challenge_auth_type(request: AccessRequest) -> str:
    """Auth-Type by which radiusd checks the response to a challenge; "" if the request contains no such response."""
    attributes = request.attributes
    if "CHAP-Password" in attributes:
        return "CHAP"
    return "MS-CHAP" if "MS-CHAP2-Response" in attributes else ""


def is_mac_password(request: AccessRequest, mac: str, nas: NasRecord | None) -> bool:
    """Whether the NAS must send the MAC address as password, and User-Password is the MAC address in any notation.

    With Service-Type Call-Check, the password may be missing.
    """
    if nas is not None and nas.mab_password != "mac":  # noqa: S105 -- a form
        return False
    password = request.attributes.get("User-Password", "")
    return normalise_mac(password) == mac if password else request.attributes.get("Service-Type") == "Call-Check"


def is_expected_password(request: AccessRequest, expected: str) -> bool:
    """Whether User-Password ("" if missing) equals `expected`."""
    return hmac.compare_digest(request.attributes.get("User-Password", "").encode(), expected.encode())


def password_detail(nas: NasRecord | None) -> str:
    return f"Admit expects {_FORM_NAMES[password_form(nas)]} as the password from this NAS"
