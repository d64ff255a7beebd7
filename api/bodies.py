"""Request bodies of bounded size and patience: nothing larger is ever held, nobody keeps a connection open for long."""

from collections.abc import Awaitable, Callable

from fastapi import Request

from api.public import limits
from nac.errors import AdmitError

_PATIENCE_SECONDS = 20


class BodyTooLarge(AdmitError):
    """The request is too large."""

    status = 413


class BodyTooSlow(AdmitError):
    """The request did not come in time."""

    status = 408


def bounded_body(most_octets: int) -> Callable[[Request], Awaitable[bytes]]:
    """A dependency that yields the body. Raises BodyTooLarge as soon as it is known to be larger, or BodyTooSlow."""

    async def read(request: Request) -> bytes:
        try:
            return await limits.read_body(request.scope, request.receive, limit=most_octets, seconds=_PATIENCE_SECONDS)
        except limits.BodyTooLarge as exc:
            raise BodyTooLarge(f"At most {most_octets} bytes are read.") from exc
        except limits.BodyTooSlow as exc:
            raise BodyTooSlow(f"It has {_PATIENCE_SECONDS} s to come.") from exc

    return read
