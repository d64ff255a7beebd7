"""Reuses the transaction that authenticated the caller for the reads of the request.

Used by requests that run in one turn (api.quick_reads). The route takes the session over and closes it. An unused
session closes with the request.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sqlalchemy.orm import Session
from starlette.types import Scope as Asgi

from nac.kit.db import Scope, continue_in_scope

_SCOPE_KEY = "admit.kept"


class _ReusableSession(ExitStack):
    session: Session | None = None


@contextmanager
def allow_session_reuse(asgi: Asgi) -> Iterator[None]:
    """Keep the session of a request that runs in one thread."""
    with _ReusableSession() as kept:
        asgi[_SCOPE_KEY] = kept
        try:
            yield
        finally:
            # Later reads, such as those of a stream, start their own session.
            del asgi[_SCOPE_KEY]


def offer_session(asgi: Asgi, session: Session, opened: ExitStack) -> None:
    """Keep the session open for the request, inside `keeping` only."""
    kept: _ReusableSession | None = asgi.get(_SCOPE_KEY)
    if kept is not None:
        kept.session = session
        kept.push(opened.pop_all())


@contextmanager
def take_session(asgi: Asgi, scope: Scope, *, by_key: bool) -> Iterator[Session | None]:
    """Kept session in this scope, closed with the block; None without one. `by_key` as in `go_on`."""
    kept: _ReusableSession | None = asgi.get(_SCOPE_KEY)
    if kept is None or kept.session is None:
        yield None
        return
    session, kept.session = kept.session, None
    with kept.pop_all():
        continue_in_scope(session, scope, by_key=by_key)
        yield session
