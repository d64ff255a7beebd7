"""One connection to a directory server. Callers must set a time limit for each call.

Methods raise DirectoryUnavailable if the connection fails, and DirectoryRefused if a response is unusable. After an
error or a cancellation, call only `end`.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from nac.inventory.identity_sources.faults import DirectoryRefused, DirectoryUnavailable
from nac.inventory.identity_sources.ldap import ber, messages
from nac.inventory.identity_sources.ldap.messages import LdapEntry, LdapMessage, LdapResult
from nac.kit.outbound.reach import AddressRefused, Destination, OutboundReach

T = TypeVar("T")

# Maximum sizes of one message, and of all messages in a response.
MAX_MESSAGE_BYTES = 1 << 18
MAX_RESPONSE_BYTES = 4 << 20
_PORTS = {"ldap": 389, "ldaps": 636}


@dataclass(frozen=True)
class LdapServer:
    url: str
    # None for an unencrypted connection.
    tls: ssl.SSLContext | None
    start_tls: bool
    reach: OutboundReach

    @property
    def place(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or _PORTS[parts.scheme]


class LdapConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._number = 1
        # Name of the last bind on this connection; "" for an anonymous connection.
        self.bound_as = ""

    @classmethod
    async def open(cls, server: LdapServer) -> "LdapConnection":
        host, port = server.place
        try:
            sock = await _connect_to_first(await server.reach.places(host, port))
            try:
                if server.start_tls:
                    await _start_tls(sock)
                named = None if server.tls is None else host
                streams = await asyncio.open_connection(
                    sock=sock, ssl=server.tls, server_hostname=named, limit=MAX_MESSAGE_BYTES
                )
            except BaseException:
                sock.close()
                raise
        except ssl.SSLCertVerificationError as exc:
            raise DirectoryUnavailable(f"{server.url}: invalid certificate: {exc.verify_message}") from exc
        except AddressRefused as exc:
            raise DirectoryRefused(str(exc)) from exc
        except (OSError, UnicodeError) as exc:
            raise DirectoryUnavailable(f"{server.url}: {_error_text(exc)}") from exc
        return cls(*streams)

    @property
    def is_usable(self) -> bool:
        return not self._reader.at_eof() and not self._writer.is_closing()

    async def bind(self, name: str, password: bytes) -> LdapResult:
        """Bind as `name`. Raises ValueError if name or password is empty, or if the password contains NUL."""
        number = self._next()
        self.bound_as = ""
        await self._send(messages.bind_request(number, name, password))
        message = await self._answer(number, messages.BIND_RESPONSE)
        result = self._parsed(messages.parse_result, message)
        if result.code == messages.SUCCESS:
            self.bound_as = name
        return result

    async def search(
        self, base: str, filter_: bytes, attributes: Sequence[str], *, size_limit: int, seconds: int
    ) -> tuple[list[LdapEntry], LdapResult]:
        """Search below `base`. Returns the entries, without referrals, and the result code of the search.

        Raises DirectoryRefused if the server sends more than `size_limit` entries.
        """
        number = self._next()
        await self._send(
            messages.search_request(number, base, filter_, attributes, size_limit=size_limit, seconds=seconds)
        )
        entries: list[LdapEntry] = []
        taken = 0
        while True:
            message = await self._answer(number, messages.SEARCH_ENTRY, messages.SEARCH_DONE, messages.SEARCH_REFERENCE)
            taken += len(message.content)
            if taken > MAX_RESPONSE_BYTES:
                raise DirectoryRefused("the response is larger than a login needs")
            if message.kind == messages.SEARCH_DONE:
                return entries, self._parsed(messages.parse_result, message)
            if message.kind == messages.SEARCH_ENTRY:
                entries.append(self._parsed(messages.parse_entry, message))
                if len(entries) > size_limit:
                    raise DirectoryRefused(f"the server sent more than the {size_limit} requested entries")

    async def end(self) -> None:
        """Close the connection immediately, without waiting for the server."""
        if not self._writer.is_closing():
            self._writer.write(messages.unbind_request(self._next()))
        self._writer.transport.abort()
        with suppress(OSError):
            await self._writer.wait_closed()

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def _send(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as exc:
            raise DirectoryUnavailable(f"the connection broke: {_error_text(exc)}") from exc

    async def _answer(self, number: int, *kinds: int) -> LdapMessage:
        try:
            head = await self._reader.readexactly(2)
            while (lengths := ber.parse_lengths(head)) is None:
                head += await self._reader.readexactly(1)
            if lengths[1] > MAX_MESSAGE_BYTES:
                raise DirectoryRefused("the server sent a message larger than a login needs")
            content = await self._reader.readexactly(lengths[1])
            message = messages.parse_message(head + content)
        except (OSError, asyncio.IncompleteReadError) as exc:
            raise DirectoryUnavailable(f"the connection broke: {_error_text(exc)}") from exc
        except ber.MalformedBer as exc:
            raise DirectoryRefused(f"invalid LDAP: {exc}") from exc
        if message.number != number or message.kind not in kinds:
            raise DirectoryRefused("the response does not match the request")
        return message

    @staticmethod
    def _parsed(parse: Callable[[bytes], T], message: LdapMessage) -> T:
        try:
            return parse(message.content)
        except ber.MalformedBer as exc:
            raise DirectoryRefused(f"invalid LDAP: {exc}") from exc


async def _connect_to_first(places: Sequence[Destination]) -> socket.socket:
    """Connect to the first address that accepts the connection."""
    loop = asyncio.get_running_loop()
    last: OSError | None = None
    for family, address in places:
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, address)
        except OSError as exc:
            sock.close()
            last = exc
        except asyncio.CancelledError:
            sock.close()
            raise
        else:
            return sock
    raise last or OSError("the name has no address")


async def _start_tls(sock: socket.socket) -> None:
    """Request StartTLS. Reads no octet after the response: if an attacker inserted data, the TLS handshake fails."""
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(sock, messages.start_tls_request(1))
        head = b""
        while (lengths := ber.parse_lengths(head)) is None:
            head += await _receive(sock, 1)
        if lengths[1] > MAX_MESSAGE_BYTES:
            raise ber.MalformedBer("too long")
        content = b""
        while len(content) < lengths[1]:
            content += await _receive(sock, lengths[1] - len(content))
        message = messages.parse_message(head + content)
        result = messages.parse_result(message.content)
    except ber.MalformedBer as exc:
        raise DirectoryRefused(f"invalid LDAP: {exc}") from exc
    if (message.number, message.kind, result.code) != (1, messages.EXTENDED_RESPONSE, messages.SUCCESS):
        raise DirectoryRefused(f"the server rejects StartTLS: {result}")


async def _receive(sock: socket.socket, most: int) -> bytes:
    data = await asyncio.get_running_loop().sock_recv(sock, most)
    if not data:
        raise ConnectionResetError("the server closed the connection")
    return data


def _error_text(exc: Exception) -> str:
    # The error number of an SSLError is from OpenSSL, not from the operating system.
    if isinstance(exc, OSError) and exc.errno and not isinstance(exc, ssl.SSLError):
        return os.strerror(exc.errno)
    return str(exc) or type(exc).__name__
