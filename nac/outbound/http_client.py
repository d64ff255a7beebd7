"""One answer of a server that a tenant named: bounded in size and time, as it comes over the wire."""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import urljoin

import httpx

from nac.outbound.reach import AddressRefused
from nac.outbound.tls import describe_tls_error
from nac.validation import is_web_address

# ValueError: a name (idna) or an address that a redirect leads to (urllib) which is none.
_FAILURES: Final = (TimeoutError, httpx.HTTPError, httpx.InvalidURL, AddressRefused, ValueError)
_REDIRECTS = (301, 302, 303, 307, 308)
# Of an answer that counts by its status.
_BODY_SECONDS = 1.0


class FetchFailed(Exception):
    """Nothing usable came; the message is for an administrator.

    `why` is the same without the address, for those whose address may hold a secret. `is_slow` where it may have what
    was sent and needs longer for it. `refused` is what it answered with a status from 400 to 499, where it has.
    """

    def __init__(self, url: str, why: str, *, is_slow: bool = False, refused: bytes | None = None) -> None:
        self.why = why
        self.is_slow = is_slow
        self.refused = refused
        super().__init__(f"{url}: {why}")


def build_client(transport: httpx.AsyncBaseTransport, *, seconds: float) -> httpx.AsyncClient:
    """`transport` is the only way out: no proxy of the environment's, no redirect that it did not look at."""
    return httpx.AsyncClient(
        transport=transport,
        timeout=seconds,
        trust_env=False,
        follow_redirects=False,
        # What is compressed has no bound until it is inflated.
        headers={"Accept-Encoding": "identity"},
    )


async def read_body(response: httpx.Response, *, most_bytes: int) -> bytes:
    """Of a response that is streamed. Raises FetchFailed where it is longer or compressed all the same."""
    url = str(response.url)
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise FetchFailed(url, "It answers in an encoding that was not asked for.")
    found = bytearray()
    async for part in response.aiter_raw():
        found += part
        if len(found) > most_bytes:
            raise FetchFailed(url, f"It sends more than {most_bytes} bytes.")
    return bytes(found)


class HttpResponse(NamedTuple):
    """Of a request whose answer's body says nothing."""

    status: int
    headers: Mapping[str, str]


class HttpClient:
    """`step_seconds` are for the connection, the request, the next part of the answer; `total_seconds` for all."""

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
        """The body of an answer of status 200, by GET, or POST where there is a body. Raises FetchFailed."""
        try:
            async with asyncio.timeout(self._total_seconds):
                return await self._follow(url, most_bytes, body, headers)
        except _FAILURES as exc:
            raise self._failed(url, exc) from exc

    async def post(self, url: str, *, body: bytes, headers: Mapping[str, str], most_bytes: int) -> HttpResponse:
        """The status of the answer, whatever it is; no redirect is followed. Raises FetchFailed where none comes.

        The answer's body is read away as far as `most_bytes`, so that the connection can be used again.
        """
        if not is_web_address(url):
            raise FetchFailed(url[:200], "It is no address on the web.")
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
                return FetchFailed(url, f"It does not take the connection within {self._step_seconds:g} s.")
            case httpx.TimeoutException():
                return FetchFailed(url, f"No answer within {self._step_seconds:g} s.", is_slow=True)
            case TimeoutError():
                return FetchFailed(url, f"No answer within {self._total_seconds:g} s.", is_slow=True)
            case _:
                return FetchFailed(url, _error_text(exc))

    async def _follow(self, url: str, most_bytes: int, body: bytes | None, headers: Mapping[str, str] | None) -> bytes:
        # One for each, so that no cookies are carried over; it is not closed, since the transport is the caller's.
        client = build_client(self._transport, seconds=self._step_seconds)
        method = "GET" if body is None else "POST"
        for _ in range(self._redirects_most + 1):
            if not is_web_address(url):
                raise FetchFailed(url[:200], "It is no address on the web.")
            async with client.stream(method, url, content=body, headers=headers) as response:
                if response.status_code == httpx.codes.OK:
                    return await read_body(response, most_bytes=most_bytes)
                if response.status_code not in _REDIRECTS or not self._redirects_most:
                    said = await read_body(response, most_bytes=most_bytes) if response.is_client_error else None
                    raise FetchFailed(url, f"It answers with status {response.status_code}.", refused=said)
                url = urljoin(url, response.headers.get("Location", ""))
        raise FetchFailed(url, f"It takes more than {self._redirects_most} redirects.")


def _error_text(exc: BaseException) -> str:
    """What stands behind a refusal of TLS is told in words: the libraries' own name functions of OpenSSL."""
    cause: BaseException | None = exc
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return describe_tls_error(cause)
        cause = cause.__cause__ or cause.__context__
    return str(exc) or type(exc).__name__
