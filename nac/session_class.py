"""The Class that a decision gives out and that accounting returns (RFC 2865 5.25): which decision began a session.

The octets are `MARK` and the decision's time, epoch microseconds, 8 octets big-endian; together with tenant and station
that names one row of the log of decisions. A NAS may return Classes of others beside it.
"""

MARK = "41"
# The end of the year 9999: what is later is no moment of ours, nor of anybody's.
LATEST = 253_402_300_799_999_999
_LENGTH = len("0x") + len(MARK) + 16


def class_of(at: int) -> str:
    """As radiusd takes octets: 0x and hex digits."""
    return f"0x{MARK}{at:016x}"


def decided_at(value: str) -> int | None:
    """Epoch microseconds of the decision; None where the Class is not one of ours."""
    if len(value) != _LENGTH or not value.startswith(f"0x{MARK}"):
        return None
    try:
        at = int(value[4:], 16)
    except ValueError:
        return None
    return at if at <= LATEST else None
