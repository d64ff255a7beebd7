"""A transaction that has looked who asks goes on with what the request reads: one connection, one beginning, one end.

For requests that are answered in one turn (api.quick_reads): whoever reads takes the session over, and ends it as any
other. What nobody has taken ends with the request.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sqlalchemy.orm import Session
from starlette.types import Scope as Asgi

from nac.db import Scope, go_on

_SCOPE_KEY = "admit.kept"


class _ReusableSession(ExitStack):
    session: Session | None = None


@contextmanager
def allow_session_reuse(asgi: Asgi) -> Iterator[None]:
    """Of a request of one thread."""
    with _ReusableSession() as kept:
        asgi[_SCOPE_KEY] = kept
        try:
            yield
        finally:
            # What reads later, as a stream does, begins a session of its own.
            del asgi[_SCOPE_KEY]


def offer_session(asgi: Asgi, session: Session, opened: ExitStack) -> None:
    """Takes over what ends the session; does nothing where nobody is to go on with it."""
    kept: _ReusableSession | None = asgi.get(_SCOPE_KEY)
    if kept is not None:
        kept.session = session
        kept.push(opened.pop_all())


@contextmanager
def take_session(asgi: Asgi, scope: Scope, *, by_key: bool) -> Iterator[Session | None]:
    """The kept session, in this scope; it ends with the block. None where there is none. `by_key` as of `go_on`."""
    kept: _ReusableSession | None = asgi.get(_SCOPE_KEY)
    if kept is None or kept.session is None:
        yield None
        return
    session, kept.session = kept.session, None
    with kept.pop_all():
        go_on(session, scope, by_key=by_key)
        yield session
