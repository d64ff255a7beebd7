"""MS-CHAP as a peer computes it (RFC 2433 A, RFC 2759 8), for devices that do not behave."""

import hashlib

from Crypto.Cipher import DES

from nac.users.passwords import nt_hash


def response_v2(challenge: bytes, peer_challenge: bytes, name: str, password: str) -> bytes:
    """NT-Response, 24 octets."""
    mixed = hashlib.sha1(peer_challenge + challenge + name.encode(), usedforsecurity=False).digest()[:8]
    return response_v1(mixed, password)


def response_v1(challenge: bytes, password: str) -> bytes:
    """To a challenge of 8 octets."""
    key = bytes.fromhex(nt_hash(password)) + bytes(5)
    return b"".join(
        DES.new(_with_parity(key[at : at + 7]), DES.MODE_ECB).encrypt(challenge)  # noqa: S304 -- what the RFCs ask for
        for at in (0, 7, 14)
    )


def _with_parity(key: bytes) -> bytes:
    bits = int.from_bytes(key, "big")
    return bytes((bits >> 49 - 7 * place & 0x7F) << 1 for place in range(8))
