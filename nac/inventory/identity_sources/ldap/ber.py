"""Basic Encoding Rules as restricted by LDAP (RFC 4511 5.1): definite lengths, one-octet tags."""

from collections.abc import Iterable

BOOLEAN, INTEGER, OCTET_STRING, ENUMERATED, SEQUENCE, SET = 0x01, 0x02, 0x04, 0x0A, 0x30, 0x31
# Maximum number of octets that encode a length. Four octets allow 4 GB.
_MAX_LENGTH_OCTETS = 4


class MalformedBer(ValueError):
    """The data is not BER or has an unexpected element."""


def encode(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    length = len(content)
    if length < 0x80:
        return bytes((tag, length)) + content
    octets = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(octets))) + octets + content


def integer(value: int, tag: int = INTEGER) -> bytes:
    """Encode an integer that is not negative. LDAP requests need no negative integers."""
    return encode(tag, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def octets(value: bytes | str, tag: int = OCTET_STRING) -> bytes:
    return encode(tag, value.encode() if isinstance(value, str) else value)


def boolean(value: bool, tag: int = BOOLEAN) -> bytes:
    return encode(tag, b"\xff" if value else b"\0")


def sequence(parts: Iterable[bytes], tag: int = SEQUENCE) -> bytes:
    return encode(tag, *parts)


def parse_lengths(start: bytes) -> tuple[int, int] | None:
    """Return the number of octets in the header (tag and length) and in the content; None if `start` is too short."""
    if len(start) < 2:
        return None
    first = start[1]
    if first < 0x80:
        return 2, first
    count = first & 0x7F
    if not 1 <= count <= _MAX_LENGTH_OCTETS:
        raise MalformedBer("unsupported form of length")
    if len(start) < 2 + count:
        return None
    return 2 + count, int.from_bytes(start[2 : 2 + count], "big")


class BerReader:
    """Reader of the elements in BER data, one after another. All methods raise MalformedBer for unexpected elements."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def more(self) -> bool:
        return self._at < len(self._data)

    def any(self) -> tuple[int, bytes]:
        """Return tag and content of the next element."""
        head = parse_lengths(self._data[self._at : self._at + 2 + _MAX_LENGTH_OCTETS])
        if head is None or self._at + sum(head) > len(self._data):
            raise MalformedBer("an element ends beyond its frame")
        tag, start = self._data[self._at], self._at + head[0]
        self._at = start + head[1]
        return tag, self._data[start : self._at]

    def of(self, *tags: int) -> bytes:
        tag, content = self.any()
        if tag not in tags:
            raise MalformedBer(f"unexpected element of type {tag:#x}")
        return content

    def inside(self, tag: int) -> "BerReader":
        return BerReader(self.of(tag))

    def number(self, tag: int = INTEGER) -> int:
        content = self.of(tag)
        if not 1 <= len(content) <= 4:
            raise MalformedBer("unsupported size of a number")
        return int.from_bytes(content, "big", signed=True)
