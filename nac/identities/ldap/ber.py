"""The Basic Encoding Rules as LDAP restricts them (RFC 4511 5.1): definite lengths, tags of one octet."""

from collections.abc import Iterable

BOOLEAN, INTEGER, OCTET_STRING, ENUMERATED, SEQUENCE, SET = 0x01, 0x02, 0x04, 0x0A, 0x30, 0x31
# Four octets of a length say 4 GB; nobody means more.
_MAX_LENGTH_OCTETS = 4


class MalformedBer(ValueError):
    """Not BER, or not what should stand there."""


def encode(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    length = len(content)
    if length < 0x80:
        return bytes((tag, length)) + content
    octets = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(octets))) + octets + content


def integer(value: int, tag: int = INTEGER) -> bytes:
    """Not negative: LDAP asks for no other."""
    return encode(tag, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def octets(value: bytes | str, tag: int = OCTET_STRING) -> bytes:
    return encode(tag, value.encode() if isinstance(value, str) else value)


def boolean(value: bool, tag: int = BOOLEAN) -> bytes:
    return encode(tag, b"\xff" if value else b"\0")


def sequence(parts: Iterable[bytes], tag: int = SEQUENCE) -> bytes:
    return encode(tag, *parts)


def parse_lengths(start: bytes) -> tuple[int, int] | None:
    """Octets of tag and length, and of the content they announce; None while `start` holds too little to say."""
    if len(start) < 2:
        return None
    first = start[1]
    if first < 0x80:
        return 2, first
    count = first & 0x7F
    if not 1 <= count <= _MAX_LENGTH_OCTETS:
        raise MalformedBer("a length that LDAP does not use")
    if len(start) < 2 + count:
        return None
    return 2 + count, int.from_bytes(start[2 : 2 + count], "big")


class BerReader:
    """Reads one element after the other. Everything raises Malformed where something else stands there."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def more(self) -> bool:
        return self._at < len(self._data)

    def any(self) -> tuple[int, bytes]:
        """Tag and content."""
        head = parse_lengths(self._data[self._at : self._at + 2 + _MAX_LENGTH_OCTETS])
        if head is None or self._at + sum(head) > len(self._data):
            raise MalformedBer("an element ends beyond its frame")
        tag, start = self._data[self._at], self._at + head[0]
        self._at = start + head[1]
        return tag, self._data[start : self._at]

    def of(self, *tags: int) -> bytes:
        tag, content = self.any()
        if tag not in tags:
            raise MalformedBer(f"an element of type {tag:#x} in the wrong place")
        return content

    def inside(self, tag: int) -> "BerReader":
        return BerReader(self.of(tag))

    def number(self, tag: int = INTEGER) -> int:
        content = self.of(tag)
        if not 1 <= len(content) <= 4:
            raise MalformedBer("a number of that size")
        return int.from_bytes(content, "big", signed=True)
