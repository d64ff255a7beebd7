"""Request bodies of a bounded size: nothing larger is ever held."""

from collections.abc import Awaitable, Callable

from fastapi import Request

from nac.errors import AdmitError


class BodyTooLarge(AdmitError):
    """The request is too large."""

    status = 413


def bounded_body(most_octets: int) -> Callable[[Request], Awaitable[bytes]]:
    """A dependency that yields the body. Raises BodyTooLarge as soon as it is known to be larger."""

    async def read(request: Request) -> bytes:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > most_octets:
                raise BodyTooLarge(f"At most {most_octets} bytes are read.")
        return bytes(body)

    return read
