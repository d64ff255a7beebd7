"""Shared engines for applications and commands that tests start repeatedly in one process.

A new engine compiles every statement and reads every table's definition again, which takes most of a test's time.
"""

from collections.abc import Sequence

from sqlalchemy import Engine

from nac.kit.db import make_engine
from nac.kit.db.timeouts import STATEMENT_SECONDS

_engines: dict[tuple[object, ...], Engine] = {}


def shared_engine(
    url: str,
    *,
    pool_size: int = 5,
    application_name: str = "admit",
    settings: Sequence[str] = (),
    wait_seconds: float = 30,
    keeps_all: bool = False,
    statement_seconds: float = STATEMENT_SECONDS,
) -> Engine:
    """Replaces `make_engine`. Equal arguments return one engine, and `dispose` has no effect."""
    key = url, pool_size, application_name, wait_seconds, keeps_all, statement_seconds, *settings
    if key not in _engines:
        given = {"pool_size": pool_size, "application_name": application_name, "settings": settings}
        given |= {"keeps_all": keeps_all, "statement_seconds": statement_seconds}
        engine = make_engine(url, wait_seconds=wait_seconds, **given)
        engine.dispose = lambda close=True: None
        _engines[key] = engine
    return _engines[key]


def dispose_all() -> None:
    for engine in _engines.values():
        Engine.dispose(engine)
    _engines.clear()
