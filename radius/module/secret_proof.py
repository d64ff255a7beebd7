"""Which of two secrets a packet proves, and which sources have changed over."""

import hmac
import os
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from radius import wire

_ACCESS_REQUEST, _ACCOUNTING_REQUEST = 1, 4
_USER_PASSWORD, _PROXY_STATE = 2, 33
_BLOCK = 16
# Beyond these the oldest are forgotten.
_MOST_MARKS = 20_000
_MOST_USED = 65_536
OLD, NEW = 0, 1
# Slot and address.
Place = tuple[int, str]


class Known(NamedTuple):
    """What a source may have: the secret in force and, during a rotation, the one that is to come."""

    secrets: tuple[bytes, ...]
    # Id of the rotation, "" for none.
    rotation: str
    # Whether requests of it must carry a Message-Authenticator.
    signs: bool


def proves(packet: wire.Packet, known: Known) -> int | None:
    """The place of the secret that the packet proves; None where it proves none of them. Raises Malformed."""
    for place, secret in enumerate(known.secrets):
        if _is_of(packet, secret, signs=known.signs):
            return place
    return None


def _is_of(packet: wire.Packet, secret: bytes, *, signs: bool) -> bool:
    if packet.code == _ACCOUNTING_REQUEST:
        head, attributes = packet.octets[:4], packet.octets[wire.LEAST :]
        expected = wire.md5(head + bytes(_BLOCK) + attributes + secret)
        return hmac.compare_digest(expected, packet.authenticator)
    signed = wire.is_signed(packet, packet.authenticator, secret)
    if signed is not None or signs:
        return bool(signed)
    return packet.code == _ACCESS_REQUEST and _has_password_of(packet, secret)


def lacks_signature(packet: wire.Packet, known: Known) -> bool:
    """Whether it has no Message-Authenticator and must have one (radius/raddb/policy.d/admit_signed)."""
    numbers = _unsigned_numbers(packet)
    return numbers is not None and (known.signs or _PROXY_STATE in numbers)


def tells_nothing(packet: wire.Packet) -> bool:
    """Whether no secret went into it: an Access-Request without signature and password (CHAP, say)."""
    numbers = _unsigned_numbers(packet)
    return numbers is not None and _USER_PASSWORD not in numbers


def _unsigned_numbers(packet: wire.Packet) -> set[int] | None:
    """Of the attributes of an Access-Request without Message-Authenticator; None for other packets."""
    numbers = {each.number for each in packet.attributes}
    is_unsigned = packet.code == _ACCESS_REQUEST and wire.MESSAGE_AUTHENTICATOR not in numbers
    return numbers if is_unsigned else None


def _has_password_of(packet: wire.Packet, secret: bytes) -> bool:
    """Whether a password unhidden with it is text with nothing but zeros behind (RFC 2865 5.2). By chance that is so
    once in ten million times."""
    hidden = next((each.value for each in packet.attributes if each.number == _USER_PASSWORD), b"")
    if not hidden or len(hidden) % _BLOCK:
        return False
    text, before = b"", packet.authenticator
    for at in range(0, len(hidden), _BLOCK):
        block = hidden[at : at + _BLOCK]
        text += bytes(a ^ b for a, b in zip(block, wire.md5(secret + before), strict=True))
        before = block
    password = text.rstrip(b"\0")
    if not password or len(text) - len(password) >= _BLOCK:
        return False
    try:
        return password.decode().isprintable()
    except UnicodeDecodeError:
        return False


class Marks:
    """Sources that have shown the new secret. From then on a packet with the old one counts once: who has recorded such
    packets and sends them again cannot keep the source at the old secret.

    Written to a file at the first time of each, so that a radiusd that is started anew knows them too.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._changed: OrderedDict[tuple[str, Place], None] = OrderedDict()
        self._used: OrderedDict[bytes, None] = OrderedDict()
        self._read()

    def last(self, place: Place, rotation: str) -> int:
        """For packets that tell nothing."""
        return NEW if rotation and (rotation, place) in self._changed else OLD

    def admits(self, place: Place, rotation: str, proven: int, authenticator: bytes) -> bool:
        """Whether the source may go on with the secret that it has proven."""
        key = rotation, place
        if proven == NEW:
            if key not in self._changed:
                self._changed[key] = None
                if len(self._changed) > _MOST_MARKS:
                    self._changed.popitem(last=False)
                self._write(rotation, place)
            return True
        if key not in self._changed:
            return True
        if authenticator in self._used:
            return False
        self._used[authenticator] = None
        if len(self._used) > _MOST_USED:
            self._used.popitem(last=False)
        return True

    def _read(self) -> None:
        try:
            lines = self._file.read_text().splitlines()
        except OSError:
            return
        for line in lines[-_MOST_MARKS:]:
            rotation, slot, source = (*line.split(" "), "", "")[:3]
            if slot.isdigit():
                self._changed[rotation, (int(slot), source)] = None
        if len(lines) > _MOST_MARKS:
            self._rewrite(lines[-_MOST_MARKS:])

    def _rewrite(self, lines: list[str]) -> None:
        self._file.write_text("".join(f"{line}\n" for line in lines))

    def _write(self, rotation: str, place: Place) -> None:
        """One that cannot be written is known until radiusd ends."""
        line = f"{rotation} {place[0]} {place[1]}\n".encode()
        try:
            file = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError:
            return
        try:
            os.write(file, line)
        except OSError:
            return
        finally:
            os.close(file)
