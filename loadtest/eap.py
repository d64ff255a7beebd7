"""EAP packets in RADIUS (RFC 3748 4, RFC 3579 3.1)."""

from nac.kit.radius_packet import EAP_MESSAGE, STATE, join_values

REQUEST, RESPONSE, SUCCESS, FAILURE = 1, 2, 3, 4
IDENTITY, NAK, MD5_CHALLENGE, TLS = 1, 3, 4, 13


def eap_packet(code: int, identifier: int, kind: int, data: bytes) -> bytes:
    return bytes((code, identifier)) + (5 + len(data)).to_bytes(2, "big") + bytes((kind,)) + data


def extract_eap(reply: bytes) -> tuple[bytes, bytes]:
    """The EAP packet that a reply carries, and its State; b"" where it has none."""
    return join_values(reply, EAP_MESSAGE), join_values(reply, STATE)
