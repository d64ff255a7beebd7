"""Access to the database driver, for COPY and server-side cursors, which SQLAlchemy does not support."""

from nac.kit.db import driver_connection

__all__ = ["driver_connection", "first_error_line"]


def first_error_line(exc: BaseException) -> str:
    """The first line of an error's message, without the statement that the driver adds."""
    return (str(exc).strip().splitlines() or [type(exc).__name__])[0]
