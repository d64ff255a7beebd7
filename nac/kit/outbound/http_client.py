"""HTTP requests to tenants' servers. Addresses must be permitted, and responses are limited in size and time."""

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import urljoin

import httpcore
import httpx

from nac.kit.outbound.reach import AddressRefused, OutboundReach
from nac.kit.outbound.tls import describe_tls_error
from nac.kit.validation import is_web_address

# idna raises ValueError for an invalid host name, urllib for an invalid redirect target.
_FAILURES: Final = (TimeoutError, httpx.HTTPError, httpx.InvalidURL, AddressRefused, ValueError)
_REDIRECTS = (301, 302, 303, 307, 308)
# Time limit to read a response body that the caller does not use.
_BODY_SECONDS = 1.0


class _ReachNetwork(httpcore.AsyncNetworkBackend):
    """Network backend that connects only to permitted addresses. Upper layers verify names and certificates."""

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
    """HTTP transport with `_ReachNetwork`. httpx has no public option for a network backend."""

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


class FetchFailed(Exception):
    """A response is missing or unusable. The message is for administrators.

    `why` omits the URL, which can contain a secret. `is_slow` means that the server probably received the request and
    is still processing the request. `refused` is the body of a 4xx response.
    """

    def __init__(self, url: str, why: str, *, is_slow: bool = False, refused: bytes | None = None) -> None:
        self.why = why
        self.is_slow = is_slow
        self.refused = refused
        super().__init__(f"{url}: {why}")


def build_client(transport: httpx.AsyncBaseTransport, *, seconds: float) -> httpx.AsyncClient:
    """Return a client that connects only with `transport`: without proxies and automatic redirects."""
    return httpx.AsyncClient(
        transport=transport,
        timeout=seconds,
        trust_env=False,
        follow_redirects=False,
        # Request no compression: after decompression, a body could exceed the size limit.
        headers={"Accept-Encoding": "identity"},
    )


async def read_body(response: httpx.Response, *, most_bytes: int) -> bytes:
    """Return the body of a streamed response. Raises FetchFailed if the body is too long or compressed."""
    url = str(response.url)
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise FetchFailed(url, "Unsupported content encoding in the response.")
    found = bytearray()
    async for part in response.aiter_raw():
        found += part
        if len(found) > most_bytes:
            raise FetchFailed(url, f"The response has more than {most_bytes} bytes.")
    return bytes(found)


class HttpResponse(NamedTuple):
    status: int
    headers: Mapping[str, str]


class HttpClient:
    """HTTP client. `step_seconds` limits each connect, send and read. `total_seconds` limits the whole request."""

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport,
        *,
        step_seconds: float = 15.0,
        total_seconds: float = 15.0,
        redirects_most: int = 3,
    ) -> None:
        self._transport = transport
        self._step_seconds = step_seconds
        self._total_seconds = total_seconds
        self._redirects_most = redirects_most

    async def fetch(
        self, url: str, *, most_bytes: int, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """Send a GET, or a POST if `body` is set. Returns the body of a 200 response. Raises FetchFailed."""
        try:
            async with asyncio.timeout(self._total_seconds):
                return await self._follow(url, most_bytes, body, headers)
        except _FAILURES as exc:
            raise self._failed(url, exc) from exc

    async def post(self, url: str, *, body: bytes, headers: Mapping[str, str], most_bytes: int) -> HttpResponse:
        """Send a POST and return the response, with any status.

        Follows no redirects. Raises FetchFailed if no response arrives. Reads up to `most_bytes` of the response body,
        so that the connection can be reused.
        """
        if not is_web_address(url):
            raise FetchFailed(url[:200], "Invalid URL.")
        client = build_client(self._transport, seconds=self._step_seconds)
        try:
            async with (
                asyncio.timeout(self._total_seconds),
                client.stream("POST", url, content=body, headers=headers) as response,
            ):
                with suppress(FetchFailed, httpx.HTTPError, TimeoutError):
                    async with asyncio.timeout(_BODY_SECONDS):
                        await read_body(response, most_bytes=most_bytes)
                return HttpResponse(response.status_code, response.headers)
        except _FAILURES as exc:
            raise self._failed(url, exc) from exc

    def _failed(self, url: str, exc: Exception) -> FetchFailed:
        match exc:
            case httpx.ConnectTimeout():
                return FetchFailed(url, f"No connection within {self._step_seconds:g} s.")
            case httpx.TimeoutException():
                return FetchFailed(url, f"No response within {self._step_seconds:g} s.", is_slow=True)
            case TimeoutError():
                return FetchFailed(url, f"No response within {self._total_seconds:g} s.", is_slow=True)
            case _:
                return FetchFailed(url, _error_text(exc))

    async def _follow(self, url: str, most_bytes: int, body: bytes | None, headers: Mapping[str, str] | None) -> bytes:
        # A new client for each request has no cookies. The client is not closed, because a close would also close the
        # caller's transport.
        client = build_client(self._transport, seconds=self._step_seconds)
        method = "GET" if body is None else "POST"
        for _ in range(self._redirects_most + 1):
            if not is_web_address(url):
                raise FetchFailed(url[:200], "Invalid URL.")
            async with client.stream(method, url, content=body, headers=headers) as response:
                if response.status_code == httpx.codes.OK:
                    return await read_body(response, most_bytes=most_bytes)
                if response.status_code not in _REDIRECTS or not self._redirects_most:
                    refused = await read_body(response, most_bytes=most_bytes) if response.is_client_error else None
                    raise FetchFailed(url, f"The server returned status {response.status_code}.", refused=refused)
                url = urljoin(url, response.headers.get("Location", ""))
        raise FetchFailed(url, f"The server sent more than {self._redirects_most} redirects.")


def _error_text(exc: BaseException) -> str:
    """Return a message for the error. For a TLS error, the message is Admit's own, because the libraries' messages
    contain names of OpenSSL functions."""
    cause: BaseException | None = exc
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return describe_tls_error(cause)
        cause = cause.__cause__ or cause.__context__
    return str(exc) or type(exc).__name__
