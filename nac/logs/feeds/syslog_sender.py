"""Sender for syslog over TLS (RFC 5425).

Syslog has no acknowledgements, so Admit relies on the acknowledgements of TCP. If a connection breaks, the receiver may
still lose the last batch. So a batch counts as delivered only after the next batch was sent, or after the connection
closed without a reset. docs/how-to/feeds.md describes the remaining risk.
"""

import array
import asyncio
import fcntl
import ssl
import termios
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

from nac.kit.outbound.reach import AddressRefused, OutboundReach
from nac.kit.outbound.tls import describe_tls_error, tls_context
from nac.logs.events.document import Event
from nac.logs.feeds.sender import SendFailed
from nac.logs.feeds.settings import SyslogSettings
from nac.logs.feeds.syslog_message import SyslogFormatter

_MAX_EVENTS = 500
_CLOSE_SECONDS = 2.0
_POLL_SECONDS = 0.002


class SyslogSender:
    most_events = _MAX_EVENTS
    is_confirmed = False

    def __init__(self, settings: SyslogSettings, *, reach: OutboundReach, client_key: str) -> None:
        self._settings = settings
        self._reach = reach
        self._client_key = client_key
        self._form = SyslogFormatter(settings)
        self._connection: _SyslogConnection | None = None

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
            what = "accept the messages" if is_connected else "accept the connection"
            why = f"The server did not {what} within {self._settings.timeout_seconds:g} s."
            raise SendFailed(why, is_slow=is_connected) from exc

    async def _connected(self) -> "_SyslogConnection":
        settings = self._settings
        try:
            places = await self._reach.places(settings.host, settings.port)
            context = _client_tls_context(settings.ca_certificate, settings.client_certificate, self._client_key)
        except AddressRefused as exc:
            raise SendFailed(str(exc)) from exc
        except ssl.SSLError as exc:
            raise SendFailed(f"Invalid client certificate: {exc.reason}.") from exc
        except OSError as exc:
            raise SendFailed(f"Cannot resolve {settings.host}: {exc.strerror or exc}.") from exc
        why = "The host name has no IP address."
        for place in places:
            try:
                return await _SyslogConnection.open(place.address[0], settings, context)
            except ssl.SSLError as exc:
                why = describe_tls_error(exc)
            except OSError as exc:
                why = f"Cannot connect: {exc.strerror or exc}."
        raise SendFailed(why)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()


class _SyslogConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        # Receivers send no data (RFC 5425 4.3); the reader waits for the connection's end. If received data were not
        # read, closing would reset the connection, and the receiver might discard data.
        self._ended = asyncio.ensure_future(_read_to_end(reader))

    @classmethod
    async def open(cls, address: str, settings: SyslogSettings, context: ssl.SSLContext) -> "_SyslogConnection":
        """Connect, and check that the receiver's certificate has the configured host name."""
        # Names in certificates have no final dot (RFC 6066 3).
        name = settings.host.removesuffix(".")
        return cls(
            *await asyncio.open_connection(
                address, settings.port, ssl=context, server_hostname=name, ssl_shutdown_timeout=_CLOSE_SECONDS
            )
        )

    async def send(self, data: bytes) -> None:
        """Send `data`. Returns when the receiver's TCP has acknowledged all octets."""
        try:
            await self._require_open()
            self._writer.write(data)
            await self._writer.drain()
            await self._require_open()
            while self._unacknowledged():
                await asyncio.sleep(_POLL_SECONDS)
                await self._require_open()
        except OSError as exc:
            raise SendFailed(f"The connection broke: {exc.strerror or exc}.") from exc

    async def _require_open(self) -> None:
        if self._ended.done() or self._writer.transport.is_closing():
            raise SendFailed(await self._ended or "The server closed the connection.")

    def _unacknowledged(self) -> int:
        """Return the number of octets that are not sent, or that TCP has not acknowledged (tcp(7), SIOCOUTQ)."""
        transport = self._writer.transport
        waiting = array.array("i", [0])
        fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, waiting)
        return transport.get_write_buffer_size() + waiting[0]

    async def close(self) -> None:
        """Close the connection. Raises SendFailed after a reset or TLS alert, but not if the receiver is silent."""
        self._writer.close()
        try:
            async with asyncio.timeout(2 * _CLOSE_SECONDS):
                # The reader reports errors of the connection.
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
    """Read until the connection ends. Returns "" after an orderly close, otherwise the error."""
    try:
        while await reader.read(4096):
            continue
    except ssl.SSLError as exc:
        # With TLS 1.3, a client learns of the rejection of its certificate only when it reads.
        return describe_tls_error(exc)
    except OSError as exc:
        return f"The connection broke: {exc.strerror or exc}."
    return ""


@lru_cache(maxsize=64)
def _client_tls_context(ca_certificate: str, client_certificate: str, client_key: str) -> ssl.SSLContext:
    return tls_context(ca_certificate, client_certificate=client_certificate, client_key=client_key)
