"""EAP packets in RADIUS (RFC 3748 4, RFC 3579 3.1)."""

from loadtest.packet import EAP_MESSAGE, STATE, parse_attributes

REQUEST, RESPONSE, SUCCESS, FAILURE = 1, 2, 3, 4
IDENTITY, NAK, MD5_CHALLENGE, TLS = 1, 3, 4, 13


def eap_packet(code: int, identifier: int, kind: int, data: bytes) -> bytes:
    return bytes((code, identifier)) + (5 + len(data)).to_bytes(2, "big") + bytes((kind,)) + data


def extract_eap(reply: bytes) -> tuple[bytes, bytes]:
    """The EAP packet that a reply carries, and its State; b"" where it has none."""
    eap, state = b"", b""
    for number, value in parse_attributes(reply):
        if number == EAP_MESSAGE:
            eap += value
        elif number == STATE:
            state = value
    return eap, state
