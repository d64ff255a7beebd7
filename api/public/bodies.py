"""Request bodies of a bounded size."""

from collections.abc import Awaitable, Callable

from fastapi import Request

from nac.errors import InvalidInput


class BodyTooLarge(InvalidInput):
    """The body is larger than a request of this kind."""

    status = 413


def bounded_body(most: int) -> Callable[[Request], Awaitable[bytes]]:
    """A dependency that reads at most `most` bytes. Raises BodyTooLarge."""

    async def read(request: Request) -> bytes:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise BodyTooLarge(f"The body has more than {most} bytes.", place="body")
        return body

    return read
