"""Converts BER (X.690 8) to the form of DER, which `cryptography` reads.

Bouncy Castle and streaming encoders send lengths that are indefinite, and octet strings in chunks.
"""

from pki import der
from pki.errors import DerDamaged

_CONSTRUCTED = 0x20
_INDEFINITE = b"\x80"
_END_OF_CONTENTS = b"\0\0"
# A certificate inside a message has about ten levels.
_MAX_DEPTH = 32


def convert_to_der(data: bytes) -> bytes:
    """Write every length in its shortest definite form, and octet strings in one piece. Raises DerDamaged.

    The order of members and the contents of other primitive elements stay the same.
    """
    converted, end = _convert(data, 0, _MAX_DEPTH)
    if end != len(data):
        raise DerDamaged(f"{len(data) - end} bytes follow the element")
    return converted


def _convert(data: bytes, at: int, depth: int) -> tuple[bytes, int]:
    """The converted element at `at` and the position after it."""
    if depth == 0:
        raise DerDamaged(f"elements are nested more than {_MAX_DEPTH} deep")
    members = []
    if data[at + 1 : at + 2] == _INDEFINITE:
        tag, end = data[at], at + 2
        if not tag & _CONSTRUCTED:
            raise DerDamaged(f"byte {at}: a primitive element has an indefinite length")
        while data[end : end + 2] != _END_OF_CONTENTS:
            member, end = _convert(data, end, depth - 1)
            members.append(member)
        return _join(tag, members), end + 2
    element, end = der.read_element(data, at)
    if not element.tag & _CONSTRUCTED:
        return der.encode(element.tag, element.content), end
    position = 0
    while position < len(element.content):
        member, position = _convert(element.content, position, depth - 1)
        members.append(member)
    return _join(element.tag, members), end


def _join(tag: int, members: list[bytes]) -> bytes:
    if tag != der.OCTET_STRING | _CONSTRUCTED:
        return der.encode(tag, b"".join(members))
    chunks = (der.require_tag(der.read_element(member)[0], der.OCTET_STRING).content for member in members)
    return der.encode(der.OCTET_STRING, b"".join(chunks))
