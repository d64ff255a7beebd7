"""Serial numbers (RFC 5280 4.1.2.2)."""

import secrets

_OCTETS = 16


def random_serial() -> int:
    """Return a random number of exactly 16 octets, whose first octet is 0x01 to 0x7f.

    With this first octet, DER needs no padding octet, no leading zero is lost, and all tools print the same digits.
    """
    first = 1 + secrets.randbelow(0x7F)
    return int.from_bytes(bytes((first,)) + secrets.token_bytes(_OCTETS - 1))


def serial_bytes(serial: int) -> bytes:
    """Big-endian bytes of a serial number, without leading zeros."""
    if serial <= 0:
        raise ValueError("a serial number must be positive")
    return serial.to_bytes((serial.bit_length() + 7) // 8)
