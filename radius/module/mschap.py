"""Errors for devices that log in by MS-CHAPv2 (RFC 2548 2.1.5, RFC 2759 6)."""

import secrets

from radius.module.radiusd_api import AttributeUpdate
from radius.module.request import AccessRequest

_CHALLENGE_OCTETS = 16
# ERROR_ACCT_DISABLED, ERROR_NO_DIALIN_PERMISSION. All others are ERROR_AUTHENTICATION_FAILURE, so that errors do not
# reveal which names exist.
_CODES = {"user-disabled": (647, "Account disabled")}
_PRE_POLICY_REASONS = (
    "wrong-password",
    "unknown-user",
    "directory-needs-pap",
    "mschap-not-allowed",
    "method-not-offered",
    "rate-limited",
    "too-many-wrong-passwords",
    "tenant-suspended",
)
_FAILED, _NOT_PERMITTED = (691, "Authentication failed"), (649, "No permission to connect")


def make_error(request: AccessRequest, method: str, reason: str) -> tuple[AttributeUpdate, ...]:
    """MS-CHAP-Error for the reply, without a retry (R=0): every attempt is a new request."""
    if method != "mschapv2":
        return ()
    # Hex; the first octet is the identifier for the response.
    identifier = int(request.attributes.get("MS-CHAP2-Response", "0x00")[2:4] or "0", 16)
    code, message = _CODES.get(reason) or (_FAILED if reason in _PRE_POLICY_REASONS else _NOT_PERMITTED)
    text = f"E={code} R=0 C={secrets.token_hex(_CHALLENGE_OCTETS)} V=3 M={message}"
    return (("MS-CHAP-Error", ":=", f"\\{identifier:03o}{text}"),)
