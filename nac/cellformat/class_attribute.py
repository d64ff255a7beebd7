"""The Class attribute of Access-Accepts.

Accounting-Requests return the Class attribute (RFC 2865 5.25), so the attribute identifies the decision.

The value of Class is `CLASS_PREFIX` and the time of the decision in epoch microseconds (8 octets, big-endian). Together
with the tenant and the MAC address, the time identifies a row of the decision log. A NAS can also return Class
attributes of other servers.
"""

CLASS_PREFIX = "41"


# End of the year 9999. Larger numbers are not valid times.
MAX_MICROSECONDS = 253_402_300_799_999_999


_LENGTH = len("0x") + len(CLASS_PREFIX) + 16


def encode_class(at: int) -> str:
    """Return the Class in radiusd's notation: 0x and hex digits."""
    return f"0x{CLASS_PREFIX}{at:016x}"


def parse_decided_at(value: str) -> int | None:
    """Return the time of the decision in epoch microseconds; None if Admit did not create this value."""
    if len(value) != _LENGTH or not value.startswith(f"0x{CLASS_PREFIX}"):
        return None
    try:
        at = int(value[4:], 16)
    except ValueError:
        return None
    return at if at <= MAX_MICROSECONDS else None
