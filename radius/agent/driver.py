"""The database driver itself, for what SQLAlchemy does not do: COPY and server-side cursors."""

import psycopg
from sqlalchemy.orm import Session


def driver_connection(session: Session) -> psycopg.Connection:
    """The session's own connection, inside its transaction."""
    connection = session.connection().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    return connection


def sentence(exc: BaseException) -> str:
    """The first line of what an error says: the driver adds the statement and its whereabouts."""
    return (str(exc).strip().splitlines() or [type(exc).__name__])[0]
