"""Accepts TLS connections and counts connections by client address, which may come from the PROXY protocol.

asyncio's servers cannot count connections in the handshake or read data before the handshake.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial

from api.concurrency_limit import ConcurrencyLimit, ConcurrencySlot
from api.enrolment.tls import PeerCertificateProtocol
from api.proxy_protocol import ProxyHeaderDamaged, read_client
from api.source_rate_limit import SourceTokenBuckets
from nac.kit.request_sources import NetworkSet, get_source

_log = logging.getLogger("admit.enrolment")
HANDSHAKE_TIMEOUT_SECONDS = 10.0
# Seconds to wait for clients that do not close TLS when the process stops.
_SHUTDOWN_TIMEOUT_SECONDS = 1.0
# Pause after an error, such as a lack of file descriptors.
_ACCEPT_PAUSE_SECONDS = 1.0

# Creates the protocol of a connection, from the address and port of the client and the slot that counts the
# connection.
ProtocolFactory = Callable[[tuple[str, int], ConcurrencySlot], PeerCertificateProtocol]


class TlsListener:
    """Listener with the members of asyncio.Server that uvicorn uses (`sockets`, `close`, `wait_closed`)."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        *,
        context: ssl.SSLContext,
        make_protocol: ProtocolFactory,
        places: ConcurrencyLimit,
        proxies: NetworkSet,
        buckets: SourceTokenBuckets | None,
    ) -> None:
        """`sockets` are listening, non-blocking sockets. Only connections from `proxies` start with a PROXY header.

        `places` limits concurrent connections. `buckets` limits the rate of connections; None means no limit.
        """
        self.sockets = sockets
        self._context = context
        self._make_protocol = make_protocol
        self._places = places
        self._proxies = proxies
        self._buckets = buckets
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepting = [self._loop.create_task(self._accept(each)) for each in sockets]

    def close(self) -> None:
        for task in (*self._accepting, *self._handshakes):
            task.cancel()
        for each in self.sockets:
            each.close()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._accepting, *self._handshakes, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                accepted, address = await self._loop.sock_accept(listening)
            except OSError as exc:
                _log.warning("cannot accept connections: %s", exc)
                await asyncio.sleep(_ACCEPT_PAUSE_SECONDS)
                continue
            task = self._loop.create_task(self._begin(accepted, address[:2]))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _begin(self, accepted: socket.socket, address: tuple[str, int]) -> None:
        """Run the TLS handshake of a connection. An error closes only this connection."""
        client = await self._client(accepted, address)
        place = self._place(client[0]) if client else None
        if client is None or place is None:
            accepted.close()
            return
        protocol = self._make_protocol(client, place)
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_SECONDS,
                ssl_shutdown_timeout=_SHUTDOWN_TIMEOUT_SECONDS,
            )
        except OSError:
            # Failed handshakes are not logged, because anyone can cause them.
            pass
        finally:
            # The protocol calls `leave` for an established connection.
            if not protocol.made:
                place.leave()

    def _place(self, address: str) -> ConcurrencySlot | None:
        """Count the connection, or return None if a limit is reached.

        The rate of connections also has a limit, because a handshake costs more than most requests.
        """
        wait = self._buckets.take(get_source(address)) if self._buckets is not None else 0.0
        return None if wait else self._places.take(address)

    async def _client(self, accepted: socket.socket, address: tuple[str, int]) -> tuple[str, int] | None:
        """Address of the client; None if the load balancer sends no valid PROXY protocol header."""
        if address[0] not in self._proxies:
            return address
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_SECONDS):
                return await read_client(partial(self._loop.sock_recv, accepted)) or address
        except (ProxyHeaderDamaged, OSError, TimeoutError) as exc:
            _log.warning("%s sent no valid PROXY protocol header: %s", address[0], exc or "timed out")
            return None
        except asyncio.CancelledError:
            accepted.close()
            raise
