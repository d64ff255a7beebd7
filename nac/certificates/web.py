"""Fetching what external authorities publish: bounded in size and time, over a transport that decides where to go."""

import asyncio
from collections.abc import Mapping
from urllib.parse import urljoin

import httpx

from nac.errors import InvalidInput
from nac.identities.faults import SourceFault
from nac.validation import require_web_address

TIME_LIMIT_SECONDS = 15.0
REDIRECTS_MOST = 3
_REDIRECTS = (301, 302, 303, 307, 308)


class FetchFailed(Exception):
    """Nothing usable came; the message says why, for an administrator."""


class Web:
    """`transport` is the only way out: it looks at the address behind each name, those of redirects included."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def fetch(
        self, url: str, *, most_bytes: int, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """GET, or POST where there is a body. Raises FetchFailed."""
        try:
            async with asyncio.timeout(TIME_LIMIT_SECONDS):
                # The transport outlives the client: it is the caller's.
                client = httpx.AsyncClient(
                    transport=self._transport,
                    timeout=TIME_LIMIT_SECONDS,
                    trust_env=False,
                    headers={"accept-encoding": "identity"},
                )
                return await _follow(client, url, most_bytes, body, dict(headers or {}))
        except TimeoutError as exc:
            raise FetchFailed(f"{url} did not answer within {TIME_LIMIT_SECONDS:.0f} s.") from exc
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise FetchFailed(f"{url}: {exc or type(exc).__name__}") from exc
        except SourceFault as exc:
            raise FetchFailed(f"{url}: {exc}") from exc


async def _follow(
    client: httpx.AsyncClient, url: str, most_bytes: int, body: bytes | None, headers: dict[str, str]
) -> bytes:
    for _ in range(REDIRECTS_MOST + 1):
        _require_allowed(url)
        method = "GET" if body is None else "POST"
        async with client.stream(method, url, content=body, headers=headers) as response:
            if response.status_code == 200:
                return await _read(response, url, most_bytes)
            if response.status_code not in _REDIRECTS:
                raise FetchFailed(f"{url} answers with status {response.status_code}.")
            url = urljoin(url, response.headers.get("location", ""))
    raise FetchFailed(f"{url}: more than {REDIRECTS_MOST} redirects.")


def _require_allowed(url: str) -> None:
    try:
        require_web_address(url, place="url")
    except InvalidInput as exc:
        raise FetchFailed(f"{url[:200]!r} is no address on the web.") from exc


async def _read(response: httpx.Response, url: str, most_bytes: int) -> bytes:
    """As it comes over the wire: a few bytes may not unpack to gigabytes."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise FetchFailed(f"{url} answers in an encoding that was not asked for.")
    found = bytearray()
    async for part in response.aiter_raw():
        found += part
        if len(found) > most_bytes:
            raise FetchFailed(f"{url} sends more than {most_bytes} bytes.")
    return bytes(found)
