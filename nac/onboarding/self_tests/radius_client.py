"""A minimal NAS: sends requests to one RADIUS server and accepts only signed responses.

RFC 2865 3 and 5.2, RFC 2866 3, RFC 3579 3.1 and 3.2, RFC 2868 3.6.
"""

# RADIUS signatures require MD5.
# ruff: noqa: S324

import hashlib
import hmac
import secrets
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from nac.kit.errors import Unavailable


class PacketCode(IntEnum):
    ACCESS_REQUEST = 1
    ACCESS_ACCEPT = 2
    ACCESS_REJECT = 3
    ACCOUNTING_REQUEST = 4
    ACCOUNTING_RESPONSE = 5
    ACCESS_CHALLENGE = 11


class AttributeType(IntEnum):
    USER_NAME = 1
    USER_PASSWORD = 2
    SERVICE_TYPE = 6
    STATE = 24
    CALLED_STATION_ID = 30
    CALLING_STATION_ID = 31
    NAS_IDENTIFIER = 32
    ACCT_STATUS_TYPE = 40
    ACCT_SESSION_ID = 44
    NAS_PORT_TYPE = 61
    CONNECT_INFO = 77
    EAP_MESSAGE = 79
    MESSAGE_AUTHENTICATOR = 80
    TUNNEL_PRIVATE_GROUP_ID = 81
    NAS_PORT_ID = 87


AttributePair = tuple[int, bytes]
_MAX_VALUE_OCTETS = 253
_HEAD = struct.Struct("!BBH16s")
_NO_SIGNATURE = bytes(16)
_MAX_PACKET_OCTETS = 4096


class MalformedPacket(ValueError):
    """The lengths in a packet are inconsistent."""


class ServerUnreachable(Unavailable):
    """The server's host name or address cannot be used."""


@dataclass(frozen=True, slots=True)
class RadiusReply:
    code: int
    pairs: tuple[AttributePair, ...]

    def joined(self, kind: AttributeType) -> bytes:
        return b"".join(value for number, value in self.pairs if number == kind)

    @property
    def vlan(self) -> str:
        """The VLAN without the tag octet, which is at most 0x1F."""
        value = self.joined(AttributeType.TUNNEL_PRIVATE_GROUP_ID)
        return (value[1:] if value[:1] and value[0] <= 0x1F else value).decode("utf-8", "replace")


def encode_attributes(values: Mapping[AttributeType, str | int | bytes]) -> tuple[AttributePair, ...]:
    """Encode attributes. A long EAP-Message becomes several."""
    found: list[AttributePair] = []
    for kind, value in values.items():
        octets = value.to_bytes(4) if isinstance(value, int) else value.encode() if isinstance(value, str) else value
        found += [(kind, octets[at : at + _MAX_VALUE_OCTETS]) for at in range(0, len(octets), _MAX_VALUE_OCTETS)]
    return tuple(found)


class RadiusServer:
    """One port of a RADIUS server and the secret. A context manager."""

    def __init__(self, host: str, port: int, secret: bytes, *, patience_seconds: float) -> None:
        self._secret = secret
        self._patience_seconds = patience_seconds
        self._identifier = secrets.randbelow(256)
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            self._socket = socket.socket(family, kind, protocol)
            self._socket.connect(address)
        except OSError as exc:
            raise ServerUnreachable(f"{host} cannot be reached: {exc.strerror or exc}.") from exc

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(
        self, code: PacketCode, pairs: Iterable[AttributePair], *, password: bytes | None = None
    ) -> RadiusReply | None:
        """Send a request. Return the response, or None if no correctly signed one arrives in time."""
        self._identifier = (self._identifier + 1) % 256
        packet = _build_request(code, self._identifier, tuple(pairs), self._secret, password)
        ends = time.monotonic() + self._patience_seconds
        # Repeat at half the time, because datagrams can be lost.
        for patience in (self._patience_seconds / 2, None):
            self._send(packet)
            until = ends if patience is None else min(ends, time.monotonic() + patience)
            reply = self._receive(packet, until)
            if reply is not None:
                return reply
        return None

    def _send(self, packet: bytes) -> None:
        try:
            self._socket.send(packet)
        except OSError:
            # ICMP error for the previous packet: nothing listens there, which counts as no response.
            return

    def _receive(self, asked: bytes, until: float) -> RadiusReply | None:
        while (left := until - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                came = self._socket.recv(_MAX_PACKET_OCTETS)
            except TimeoutError:
                return None
            except OSError:
                time.sleep(min(left, 0.1))
                continue
            reply = read_reply(came, asked, self._secret)
            if reply is not None:
                return reply
        return None


def _build_request(
    code: PacketCode, identifier: int, pairs: tuple[AttributePair, ...], secret: bytes, password: bytes | None
) -> bytes:
    if code == PacketCode.ACCOUNTING_REQUEST:
        body = _encode_pairs(pairs)
        unsigned = _HEAD.pack(code, identifier, 20 + len(body), _NO_SIGNATURE) + body
        return unsigned[:4] + hashlib.md5(unsigned + secret).digest() + body
    authenticator = secrets.token_bytes(16)
    if password is not None:
        pairs = (*pairs, (AttributeType.USER_PASSWORD, _hide_password(password, authenticator, secret)))
    # First attribute, so that a server can check it before it parses further (CVE-2024-3596).
    body = _encode_pairs(((AttributeType.MESSAGE_AUTHENTICATOR, _NO_SIGNATURE), *pairs))
    unsigned = _HEAD.pack(code, identifier, 20 + len(body), authenticator) + body
    return unsigned[:22] + hmac.digest(secret, unsigned, "md5") + unsigned[38:]


def _encode_pairs(pairs: Iterable[AttributePair]) -> bytes:
    return b"".join(bytes((kind, 2 + len(value))) + value for kind, value in pairs)


def _hide_password(password: bytes, authenticator: bytes, secret: bytes) -> bytes:
    padded = password + bytes(-len(password) % 16)
    hidden, mask = b"", authenticator
    for start in range(0, len(padded), 16):
        stream = hashlib.md5(secret + mask).digest()
        mask = bytes(left ^ right for left, right in zip(padded[start : start + 16], stream, strict=True))
        hidden += mask
    return hidden


def read_reply(came: bytes, asked: bytes, secret: bytes) -> RadiusReply | None:
    """Parse a response. Return None if it does not match `asked` or is not signed with `secret`."""
    if len(came) < 20 or came[1] != asked[1] or int.from_bytes(came[2:4]) != len(came):
        return None
    with_request = came[:4] + asked[4:20] + came[20:]
    if not hmac.compare_digest(hashlib.md5(with_request + secret).digest(), came[4:20]):
        return None
    try:
        pairs = read_pairs(came)
    except MalformedPacket:
        return None
    if came[0] != PacketCode.ACCOUNTING_RESPONSE and not _is_authenticated(with_request, pairs, secret):
        return None
    return RadiusReply(came[0], pairs)


def read_pairs(packet: bytes) -> tuple[AttributePair, ...]:
    """Parse attributes. Raises Malformed."""
    found, at = [], 20
    while at < len(packet):
        length = packet[at + 1] if at + 1 < len(packet) else 0
        if length < 2 or at + length > len(packet):
            raise MalformedPacket
        found.append((packet[at], packet[at + 2 : at + length]))
        at += length
    return tuple(found)


def _is_authenticated(packet: bytes, pairs: tuple[AttributePair, ...], secret: bytes) -> bool:
    at = 20
    for kind, value in pairs:
        if kind == AttributeType.MESSAGE_AUTHENTICATOR and len(value) == 16:
            unsigned = packet[: at + 2] + _NO_SIGNATURE + packet[at + 18 :]
            return hmac.compare_digest(hmac.digest(secret, unsigned, "md5"), value)
        at += 2 + len(value)
    return False
