"""MS-CHAP computed by the peer (RFC 2433 A, RFC 2759 8), for devices that violate the protocol."""

import hashlib
import os

from Crypto.Cipher import DES

from nac.kit.passwords import compute_nt_hash


def attributes_v2(name: str, password: str, *, identifier: int = 7, spoken: str = "") -> tuple[str, str]:
    """Attributes of MS-CHAPv2 (RFC 2548 2.3.2). `spoken` is the name in the computation."""
    challenge, peer = os.urandom(16), os.urandom(16)
    answer = response_v2(challenge, peer, spoken or name, password)
    value = bytes((identifier, 0)) + peer + bytes(8) + answer
    return f"MS-CHAP-Challenge=0x{challenge.hex()}", f"MS-CHAP2-Response=0x{value.hex()}"


def attributes_v1(password: str, *, identifier: int = 7) -> tuple[str, str]:
    """Attributes of MS-CHAPv1 (RFC 2548 2.1.3), which Admit rejects."""
    challenge = os.urandom(8)
    value = bytes((identifier, 1)) + bytes(24) + _response_v1(challenge, password)
    return f"MS-CHAP-Challenge=0x{challenge.hex()}", f"MS-CHAP-Response=0x{value.hex()}"


def response_v2(challenge: bytes, peer_challenge: bytes, name: str, password: str) -> bytes:
    """NT-Response, 24 octets."""
    mixed = hashlib.sha1(peer_challenge + challenge + name.encode(), usedforsecurity=False).digest()[:8]
    return _response_v1(mixed, password)


def _response_v1(challenge: bytes, password: str) -> bytes:
    """The response to a challenge of 8 octets."""
    key = bytes.fromhex(compute_nt_hash(password)) + bytes(5)
    return b"".join(
        DES.new(_with_parity(key[at : at + 7]), DES.MODE_ECB).encrypt(challenge)  # noqa: S304 -- what the RFCs ask for
        for at in (0, 7, 14)
    )


def _with_parity(key: bytes) -> bytes:
    bits = int.from_bytes(key, "big")
    return bytes((bits >> 49 - 7 * place & 0x7F) << 1 for place in range(8))
