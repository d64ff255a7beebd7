"""The database driver itself, for what SQLAlchemy does not do: COPY and server-side cursors."""

from nac.db import driver_connection

__all__ = ["driver_connection", "sentence"]


def sentence(exc: BaseException) -> str:
    """The first line of what an error says: the driver adds the statement and its whereabouts."""
    return (str(exc).strip().splitlines() or [type(exc).__name__])[0]
