"""A minimal RADIUS client: sends requests to one server, and accepts only correctly signed responses."""

import os
import secrets
import socket
import time
from collections.abc import Mapping
from typing import Self

from nac.kit.errors import Unavailable
from nac.kit.radius_packet import (
    MAX_PACKET_BYTES,
    ForgedResponse,
    MalformedPacket,
    RadiusPacket,
    UnsignedResponse,
    encode_attribute,
    make_access_request,
    make_accounting_request,
    parse_response,
)


class ServerUnreachable(Unavailable):
    """The server's host name or address cannot be used."""


def encode_attributes(values: Mapping[int, str | int]) -> bytes:
    return b"".join(encode_attribute(number, value) for number, value in values.items())


class RadiusServer:
    """One port of a RADIUS server, with its shared secret. As a context manager, closes its socket at the end."""

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

    def request_access(self, attributes: bytes, *, password: bytes | None = None) -> RadiusPacket | None:
        """Send an Access-Request. Returns the response, or None if no correctly signed response arrives in time."""
        return self._exchange(
            make_access_request(self._next_identifier(), os.urandom(16), attributes, self._secret, password)
        )

    def account(self, attributes: bytes) -> RadiusPacket | None:
        """Send an Accounting-Request. Returns the response, or None if no correctly signed response arrives in time."""
        return self._exchange(make_accounting_request(self._next_identifier(), attributes, self._secret))

    def _next_identifier(self) -> int:
        self._identifier = (self._identifier + 1) % 256
        return self._identifier

    def _exchange(self, request: bytes) -> RadiusPacket | None:
        ends = time.monotonic() + self._patience_seconds
        # Repeat the request after half of the time, because datagrams can be lost.
        for patience in (self._patience_seconds / 2, None):
            self._send(request)
            until = ends if patience is None else min(ends, time.monotonic() + patience)
            reply = self._receive(request, until)
            if reply is not None:
                return reply
        return None

    def _send(self, request: bytes) -> None:
        try:
            self._socket.send(request)
        except OSError:
            # An ICMP error reports that no process listens on the port. Treat this error as a missing response.
            return

    def _receive(self, request: bytes, until: float) -> RadiusPacket | None:
        while (left := until - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                datagram = self._socket.recv(MAX_PACKET_BYTES)
            except TimeoutError:
                return None
            except OSError:
                time.sleep(min(left, 0.1))
                continue
            try:
                return parse_response(datagram, request, self._secret)
            except (MalformedPacket, ForgedResponse, UnsignedResponse):
                continue
        return None
