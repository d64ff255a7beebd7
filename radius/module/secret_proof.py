"""Determines with which of two secrets a sender made a packet, and which sources have used the new secret."""

import os
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from nac.kit.radius_packet import (
    ACCESS_REQUEST,
    ACCOUNTING_REQUEST,
    MESSAGE_AUTHENTICATOR,
    PROXY_STATE,
    USER_PASSWORD,
    RadiusPacket,
    is_authentic,
    is_signed,
    reveal_password,
)

_BLOCK_BYTES = 16
# Limit of sources. The oldest sources are dropped.
_MAX_CHANGED = 20_000
_MAX_USED = 65_536
OLD, NEW = 0, 1
# Slot number and source address.
SourceKey = tuple[int, str]


class KnownSecrets(NamedTuple):
    """Secrets that a source may use: the current secret and, during a rotation, the next secret."""

    secrets: tuple[bytes, ...]
    # Id of the rotation; "" if none is running.
    rotation: str
    # Whether the source's requests must contain a Message-Authenticator.
    signs: bool


def find_proven_secret(packet: RadiusPacket, known: KnownSecrets) -> int | None:
    """Index of the secret with which the packet was made; None if the packet was made with neither secret. Raises
    MalformedPacket."""
    for place, secret in enumerate(known.secrets):
        if _is_made_with(packet, secret, signs=known.signs):
            return place
    return None


def _is_made_with(packet: RadiusPacket, secret: bytes, *, signs: bool) -> bool:
    if packet.code == ACCOUNTING_REQUEST:
        return is_authentic(packet, bytes(_BLOCK_BYTES), secret)
    signed = is_signed(packet, packet.authenticator, secret)
    if signed is not None or signs:
        return bool(signed)
    return packet.code == ACCESS_REQUEST and _has_password_hidden_with(packet, secret)


def lacks_signature(packet: RadiusPacket, known: KnownSecrets) -> bool:
    """Whether a required Message-Authenticator is missing (radius/raddb/policy.d/admit_signed)."""
    numbers = _unsigned_numbers(packet)
    return numbers is not None and (known.signs or PROXY_STATE in numbers)


def has_no_proof(packet: RadiusPacket) -> bool:
    """Whether the packet does not show with which secret it was made.

    An example is an Access-Request with CHAP and without Message-Authenticator.
    """
    numbers = _unsigned_numbers(packet)
    return numbers is not None and USER_PASSWORD not in numbers


def _unsigned_numbers(packet: RadiusPacket) -> set[int] | None:
    """Attribute numbers of an Access-Request without Message-Authenticator; None for any other packet."""
    numbers = {number for number, _ in packet.attributes}
    is_unsigned = packet.code == ACCESS_REQUEST and MESSAGE_AUTHENTICATOR not in numbers
    return numbers if is_unsigned else None


def _has_password_hidden_with(packet: RadiusPacket, secret: bytes) -> bool:
    """Whether User-Password, decrypted with `secret`, is text padded with zeros (RFC 2865 5.2).

    With a wrong secret, the result is true in one of ten million cases.
    """
    hidden = next((value for number, value in packet.attributes if number == USER_PASSWORD), b"")
    try:
        padded = reveal_password(hidden, packet.authenticator, secret)
        password = padded.rstrip(b"\0")
        is_text = password.decode().isprintable()
    except ValueError:
        # The length is invalid, or the text is not UTF-8.
        return False
    return is_text and password != b"" and len(padded) - len(password) < _BLOCK_BYTES


class ChangedSources:
    """Sources that have used the new secret.

    After a source has used the new secret, Admit accepts each packet with the old secret only once. So an attacker who
    replays packets cannot keep a source on the old secret. The module writes the first use of the new secret to a file,
    for the next radiusd.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._changed: OrderedDict[tuple[str, SourceKey], None] = OrderedDict()
        self._used: OrderedDict[bytes, None] = OrderedDict()
        self._read()

    def last(self, place: SourceKey, rotation: str) -> int:
        """Index of the secret that the source used last, for packets that do not show their secret."""
        return NEW if rotation and (rotation, place) in self._changed else OLD

    def admits(self, place: SourceKey, rotation: str, proven: int, authenticator: bytes) -> bool:
        """Whether Admit accepts a packet of this source.

        `proven` is the index of the secret with which the packet was made.
        """
        key = rotation, place
        if proven == NEW:
            if key not in self._changed:
                self._changed[key] = None
                if len(self._changed) > _MAX_CHANGED:
                    self._changed.popitem(last=False)
                self._write(rotation, place)
            return True
        if key not in self._changed:
            return True
        if authenticator in self._used:
            return False
        self._used[authenticator] = None
        if len(self._used) > _MAX_USED:
            self._used.popitem(last=False)
        return True

    def _read(self) -> None:
        try:
            lines = self._file.read_text().splitlines()
        except OSError:
            return
        for line in lines[-_MAX_CHANGED:]:
            rotation, slot, source = (*line.split(" "), "", "")[:3]
            if slot.isdigit():
                self._changed[rotation, (int(slot), source)] = None
        if len(lines) > _MAX_CHANGED:
            self._rewrite(lines[-_MAX_CHANGED:])

    def _rewrite(self, lines: list[str]) -> None:
        self._file.write_text("".join(f"{line}\n" for line in lines))

    def _write(self, rotation: str, place: SourceKey) -> None:
        """Append the source to the file. If the write fails, this process still remembers the source."""
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
