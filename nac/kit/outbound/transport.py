"""HTTP over connections to permitted addresses only."""

import ssl
from collections.abc import Iterable

import httpcore
import httpx

from nac.kit.outbound.reach import OutboundReach


class _ReachNetwork(httpcore.AsyncNetworkBackend):
    """Connects only to checked addresses. Upper layers verify names and certificates."""

    def __init__(self, reach: OutboundReach) -> None:
        self._reach = reach
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            places = await self._reach.places(host, port)
        except OSError as exc:
            raise httpcore.ConnectError(exc.strerror or str(exc)) from exc
        last: httpcore.ConnectError | httpcore.ConnectTimeout | None = None
        for place in places:
            try:
                return await self._network.connect_tcp(place.address[0], port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
                last = exc
        raise last or httpcore.ConnectError("the name has no address")


class OutboundTransport(httpx.AsyncHTTPTransport):
    """A transport with our network backend. httpx has no other way to set it."""

    def __init__(self, reach: OutboundReach, *, tls: ssl.SSLContext, connections: int) -> None:
        super().__init__(verify=tls, trust_env=False)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls, max_connections=connections, network_backend=_ReachNetwork(reach)
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.raw_host.decode()
        if host.endswith("."):
            # Certificates omit the trailing dot of a DNS name (RFC 6066 3).
            request.extensions = {**request.extensions, "sni_hostname": host.removesuffix(".")}
        return await super().handle_async_request(request)
