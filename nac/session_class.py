"""The Class that a decision gives out and that accounting returns (RFC 2865 5.25): which decision began a session.

The octets are `CLASS_PREFIX` and the decision's time, epoch microseconds, 8 octets big-endian; with tenant and station
that names one row of the log of decisions. A NAS may return Classes of others beside it.
"""

CLASS_PREFIX = "41"
# The end of the year 9999: what is later is no moment of ours, nor of anybody's.
MAX_MICROSECONDS = 253_402_300_799_999_999
_LENGTH = len("0x") + len(CLASS_PREFIX) + 16


def encode_class(at: int) -> str:
    """As radiusd takes octets: 0x and hex digits."""
    return f"0x{CLASS_PREFIX}{at:016x}"


def parse_decided_at(value: str) -> int | None:
    """Epoch microseconds of the decision; None where the Class is not one of ours."""
    if len(value) != _LENGTH or not value.startswith(f"0x{CLASS_PREFIX}"):
        return None
    try:
        at = int(value[4:], 16)
    except ValueError:
        return None
    return at if at <= MAX_MICROSECONDS else None
