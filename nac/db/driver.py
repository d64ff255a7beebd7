"""The database driver itself, for what SQLAlchemy does not do: COPY and server-side cursors."""

import psycopg
from sqlalchemy.orm import Session


def driver_connection(session: Session) -> psycopg.Connection:
    """The session's own connection, inside its transaction."""
    connection = session.connection().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    return connection
