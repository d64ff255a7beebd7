"""Reads request bodies with limits on size and time."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.routing import BaseRoute
from starlette.types import Message, Receive, Scope

from nac.kit.errors import AdmitError
from nac.kit.request_sources import get_source

BODY_TIMEOUT_SECONDS = 20.0


class BodyTooLarge(AdmitError):
    """The request is too large."""

    status = 413


class BodyTooSlow(AdmitError):
    """The request took too long to arrive."""

    status = 408


class TooMuchAtOnce(AdmitError):
    """Too many bytes are being sent at the same time."""

    status = 429
    retry_after_seconds = 2


class BodyMemoryLimit:
    """Counts bytes of bodies in memory, with a limit for each source and a limit for all sources. Not thread-safe."""

    def __init__(self, *, of_source: int, in_all: int) -> None:
        self._of_source, self._in_all = of_source, in_all
        self._by_source: Counter[str] = Counter()

    @contextmanager
    def holding(self, address: str, size: int) -> Iterator[None]:
        """Count `size` bytes for the client network of `address` while the block runs. Raises TooMuchAtOnce."""
        source = get_source(address)
        if self._by_source[source] + size > self._of_source or self._by_source.total() + size > self._in_all:
            raise TooMuchAtOnce(
                f"The limit for simultaneous requests is {self._of_source} bytes per address, {self._in_all} in total.",
                remedy="Send requests one after the other.",
            )
        self._by_source[source] += size
        try:
            yield
        finally:
            self._by_source[source] -= size
            self._by_source += Counter()


def require_bounded_body(most_octets: int) -> Callable[[Request], Awaitable[bytes]]:
    """Return a dependency that reads the body. The dependency raises the errors of `read_body`."""

    async def read(request: Request) -> bytes:
        return await read_body(request.scope, request.receive, most_octets=most_octets, seconds=BODY_TIMEOUT_SECONDS)

    return read


async def read_body(scope: Scope, receive: Receive, *, most_octets: int, seconds: float) -> bytes:
    """Read the body, of at most `most_octets` bytes.

    If Content-Length is larger, the function rejects the request before it reads the body.

    Raises BodyTooLarge or BodyTooSlow. After an error, close the connection, because the rest of the body is unread.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and (not value.isdigit() or len(value) > 18 or int(value) > most_octets):
            raise BodyTooLarge(f"The limit for the body is {most_octets} bytes.")
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise BodyTooSlow("The client disconnected.")
                part: bytes = message.get("body", b"")
                body += part
                if len(body) > most_octets:
                    raise BodyTooLarge(f"The limit for the body is {most_octets} bytes.")
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError as exc:
        raise BodyTooSlow(f"The body must arrive within {seconds:g} s.") from exc


async def drain_body(receive: Receive, *, most_octets: int, seconds: float) -> None:
    """Read and discard the rest of a rejected body. Clients read the response only after they have sent the body."""
    came = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while came < most_octets:
                message = await receive()
                came += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI receive function for a body that was already read."""
    first = True

    async def replayed() -> Message:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replayed


def allow_empty_body(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    """Yield the routes, changed so that a POST without a body means `{}` if no field is required.

    A PATCH or PUT without a body is an error, because the missing body is probably a mistake.
    """
    for route in routes:
        if isinstance(route, APIRoute) and route.body_field is not None and "POST" in (route.methods or ()):
            told = route.body_field.field_info
            form: object = told.annotation
            if isinstance(form, type) and issubclass(form, BaseModel) and _has_no_required_field(form):
                told.default_factory = form
        yield route


def _has_no_required_field(form: type[BaseModel]) -> bool:
    return not any(field.is_required() for field in form.model_fields.values())
