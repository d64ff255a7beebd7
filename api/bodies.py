"""Request bodies of bounded size and patience: nothing larger is ever held, nobody keeps a connection open for long."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

from fastapi import Request
from starlette.types import Message, Receive, Scope

from nac.errors import AdmitError
from nac.request_sources import get_source

BODY_TIMEOUT_SECONDS = 20.0


class BodyTooLarge(AdmitError):
    """The request is too large."""

    status = 413


class BodyTooSlow(AdmitError):
    """The request did not come in time."""

    status = 408


class TooMuchAtOnce(AdmitError):
    """Too much is sent at the same time."""

    status = 429
    retry_after_seconds = 2


class BodyMemoryLimit:
    """Bytes of bodies that are held: so many `of_source`, and `in_all`. For one thread."""

    def __init__(self, *, of_source: int, in_all: int) -> None:
        self._of_source, self._in_all = of_source, in_all
        self._by_source: Counter[str] = Counter()

    @contextmanager
    def holding(self, address: str, size: int) -> Iterator[None]:
        """Raises TooMuchAtOnce."""
        source = get_source(address)
        if self._by_source[source] + size > self._of_source or self._by_source.total() + size > self._in_all:
            raise TooMuchAtOnce(
                f"Bodies of one address may have {self._of_source} bytes together, and all of them {self._in_all}.",
                remedy="Send them one after the other.",
            )
        self._by_source[source] += size
        try:
            yield
        finally:
            self._by_source[source] -= size
            self._by_source += Counter()


def require_bounded_body(most_octets: int) -> Callable[[Request], Awaitable[bytes]]:
    """A dependency that yields the body. Raises as `read_body`."""

    async def read(request: Request) -> bytes:
        return await read_body(request.scope, request.receive, most_octets=most_octets, seconds=BODY_TIMEOUT_SECONDS)

    return read


async def read_body(scope: Scope, receive: Receive, *, most_octets: int, seconds: float) -> bytes:
    """The request's body of at most so many bytes; one that says that it is longer is not read at all.

    Raises BodyTooLarge or BodyTooSlow: the connection should then be closed, as the rest of the body is in the way.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and (not value.isdigit() or len(value) > 18 or int(value) > most_octets):
            raise BodyTooLarge(f"At most {most_octets} bytes are read.")
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise BodyTooSlow("The client is gone.")
                part: bytes = message.get("body", b"")
                body += part
                if len(body) > most_octets:
                    raise BodyTooLarge(f"At most {most_octets} bytes are read.")
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError as exc:
        raise BodyTooSlow(f"It has {seconds:g} s to come.") from exc


async def drain_body(receive: Receive, *, most_octets: int, seconds: float) -> None:
    """Read what still comes of a body that is refused, and keep none of it: who is sending does not see an answer."""
    came = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while came < most_octets:
                message = await receive()
                came += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def replay_body(body: bytes, receive: Receive) -> Receive:
    """What comes where the body was read already."""
    first = True

    async def replayed() -> Message:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replayed
