"""Attributes that a policy can set in an Access-Accept (RFC 2865 5.44, 2866 5.13, 2868 4, 2869 5.19, 3579 3.3)."""

from nac.engine.dictionary.value_checks import REPLY_TYPES

_MICROSOFT = 311
_DHCP = 54

_REQUEST_ONLY = "belongs to requests: a NAS ignores it in a reply"
_SERVER_ONLY = "is set by the server"

# By number, so that aliases are rejected, too.
_FORBIDDEN: dict[tuple[int, int], str] = {
    **{(0, number): _REQUEST_ONLY for number in (2, 3, 4, 5, 30, 31, 32, 55, 60, 61, 68, 70, 77, 86, 87, 95, 101)},
    # RFC 2866: all of accounting, and the 64-bit counters of RFC 2869.
    **{(0, number): _REQUEST_ONLY for number in range(40, 54)},
    # State, Proxy-State, Vendor-Specific itself, EAP-Message, Message-Authenticator, EAP-Key-Name.
    **{(0, number): _SERVER_ONLY for number in (24, 26, 33, 79, 80, 102)},
    # RFC 2548: MS-CHAP and EAP keys. MPPE-Send-Key and -Recv-Key are 16 and 17.
    **{(_MICROSOFT, number): _SERVER_ONLY for number in (1, 2, 3, 4, 5, 6, 11, 12, 16, 17, 25, 26, 27)},
}


def require_replyable(name: str, vendor: int, number: int, kind: str, encrypt: int, *, nested: bool) -> None:
    """Raise ValueError unless a policy can set this attribute in a reply."""
    if nested or kind not in REPLY_TYPES:
        raise ValueError(f"{name} has the type {'tlv' if nested else kind}, which a policy cannot send")
    if not vendor and number > 255:
        raise ValueError(f"{name} is internal to radiusd and never sent")
    if vendor == _DHCP:
        raise ValueError(f"{name} is a DHCP option, not a RADIUS attribute")
    refusal = _FORBIDDEN.get((vendor, number))
    if refusal is None and encrypt == 1:
        # Encrypted with the authenticator of a request (RFC 2865 5.2).
        refusal = _REQUEST_ONLY
    if refusal is not None:
        raise ValueError(f"{name} {refusal}")
