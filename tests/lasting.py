"""Engines for what a test starts in its own process, again and again: applications and commands.

Each of them makes an engine and throws it away. A new one compiles every statement anew, and its connections learn of
every table anew: most of what such a test would do.
"""

from collections.abc import Sequence

from sqlalchemy import Engine

from nac.db import make_engine
from nac.db.timeouts import STATEMENT_SECONDS

_engines: dict[tuple[object, ...], Engine] = {}


def lasting_engine(
    url: str,
    *,
    pool_size: int = 5,
    application_name: str = "admit",
    settings: Sequence[str] = (),
    wait_seconds: float = 30,
    keeps_all: bool = False,
    statement_seconds: float = STATEMENT_SECONDS,
) -> Engine:
    """In place of `make_engine`: the same one for the same arguments; who disposes of it gives nothing up."""
    key = url, pool_size, application_name, wait_seconds, keeps_all, statement_seconds, *settings
    if key not in _engines:
        given = {"pool_size": pool_size, "application_name": application_name, "settings": settings}
        given |= {"keeps_all": keeps_all, "statement_seconds": statement_seconds}
        engine = make_engine(url, wait_seconds=wait_seconds, **given)
        engine.dispose = lambda close=True: None
        _engines[key] = engine
    return _engines[key]


def dispose_of_all() -> None:
    for engine in _engines.values():
        Engine.dispose(engine)
    _engines.clear()
