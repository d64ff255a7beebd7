"""Syslog over TLS (RFC 5425), where TCP alone acknowledges: what the other machine's TCP has is held to have arrived.

Of a connection that breaks, the batch before the break may be lost in the receiver all the same; so the last batch
counts once the next one has gone through, or the connection was closed without a reset. docs/how-to/feeds.md says what
remains.
"""

import array
import asyncio
import fcntl
import os
import ssl
import termios
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

from nac.events.document import Event
from nac.feeds.sending import SendFailed
from nac.feeds.settings import SyslogSettings
from nac.feeds.syslog_message import SyslogForm
from nac.outbound.reach import AddressRefused, OutboundReach
from nac.outbound.tls import describe_tls_error, tls_context

_MOST_EVENTS = 500
_CLOSE_SECONDS = 2.0
_LOOK_SECONDS = 0.002


class SyslogSender:
    most_events = _MOST_EVENTS
    is_confirmed = False

    def __init__(self, settings: SyslogSettings, *, reach: OutboundReach, client_key: str) -> None:
        self._settings = settings
        self._reach = reach
        self._client_key = client_key
        self._form = SyslogForm(settings)
        self._connection: _Connection | None = None

    def fitting(self, events: Sequence[Event]) -> int:
        return len(events)

    async def send(self, events: Sequence[Event]) -> None:
        data = b"".join(map(self._form.frame, events))
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                if self._connection is None:
                    self._connection = await self._connected()
            async with asyncio.timeout(self._settings.timeout_seconds):
                await self._connection.send(data)
        except TimeoutError as exc:
            is_connected = self._connection is not None
            what = "take the messages" if is_connected else "take the connection"
            why = f"It does not {what} within {self._settings.timeout_seconds:g} s."
            raise SendFailed(why, is_slow=is_connected) from exc

    async def _connected(self) -> "_Connection":
        settings = self._settings
        try:
            places = await self._reach.places(settings.host, settings.port)
            context = _context(settings.ca_certificate, settings.client_certificate, self._client_key)
        except AddressRefused as exc:
            raise SendFailed(str(exc)) from exc
        except ssl.SSLError as exc:
            raise SendFailed(f"The client's certificate cannot be used: {exc.reason}.") from exc
        except OSError as exc:
            raise SendFailed(f"{settings.host} is not found: {exc.strerror or exc}.") from exc
        why = "It has no address."
        for place in places:
            try:
                return await _Connection.open(place.address[0], settings, context)
            except ssl.SSLError as exc:
                why = describe_tls_error(exc)
            except OSError as exc:
                why = f"It cannot be connected to: {exc.strerror or exc}."
        raise SendFailed(why)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        # A receiver has nothing to say (RFC 5425 4.3): what comes is its end. Left unread, it would turn our end into a
        # reset, with which the other side may lose what it has not read yet.
        self._ended = asyncio.ensure_future(_read_to_end(reader))

    @classmethod
    async def open(cls, address: str, settings: SyslogSettings, context: ssl.SSLContext) -> "_Connection":
        """The certificate is looked at for the name that was set, whatever address it has."""
        # The dot that ends a name in DNS is in no certificate (RFC 6066 3).
        name = settings.host.removesuffix(".")
        return cls(
            *await asyncio.open_connection(
                address, settings.port, ssl=context, server_hostname=name, ssl_shutdown_timeout=_CLOSE_SECONDS
            )
        )

    async def send(self, data: bytes) -> None:
        """Returns when the other machine's TCP has it all."""
        try:
            await self._require_open()
            self._writer.write(data)
            await self._writer.drain()
            await self._require_open()
            while self._unacknowledged():
                await asyncio.sleep(_LOOK_SECONDS)
                await self._require_open()
        except OSError as exc:
            raise SendFailed(f"The connection broke: {exc.strerror or exc}.") from exc

    async def _require_open(self) -> None:
        if self._ended.done() or self._writer.transport.is_closing():
            raise SendFailed(await self._ended or "It closed the connection.")

    def _unacknowledged(self) -> int:
        """Octets that are still on this side: in our buffer, or sent and not acknowledged (tcp(7), SIOCOUTQ)."""
        transport = self._writer.transport
        waiting = array.array("i", [0])
        fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, waiting)
        return transport.get_write_buffer_size() + waiting[0]

    async def close(self) -> None:
        """Raises SendFailed where the other side ends by a reset or an alert; saying nothing is no failure."""
        self._writer.close()
        try:
            async with asyncio.timeout(2 * _CLOSE_SECONDS):
                # What went wrong, if anything, is what reading ends with.
                with suppress(OSError):
                    await self._writer.wait_closed()
                why = await self._ended
        except TimeoutError:
            self.abort()
            return
        if why:
            raise SendFailed(why)

    def abort(self) -> None:
        self._writer.transport.abort()
        self._ended.cancel()


async def _read_to_end(reader: asyncio.StreamReader) -> str:
    """ "" where the other side has closed in order, else what happened."""
    try:
        while await reader.read(4096):
            continue
    except ssl.SSLError as exc:
        # With TLS 1.3 a client learns only now that its certificate is refused.
        return describe_tls_error(exc)
    except OSError as exc:
        return f"The connection broke: {exc.strerror or exc}."
    return ""


@lru_cache(maxsize=64)
def _context(ca_certificate: str, client_certificate: str, client_key: str) -> ssl.SSLContext:
    context = tls_context(ca_certificate)
    if client_certificate:
        # OpenSSL reads files alone here: this one is in memory, and nobody else's.
        with open(os.memfd_create("client", os.MFD_CLOEXEC), "wb") as file:
            file.write(f"{client_certificate}\n{client_key}".encode())
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context
