"""Access to the database driver, for COPY and server-side cursors."""

import psycopg
from sqlalchemy.orm import Session


def driver_connection(session: Session) -> psycopg.Connection:
    """Return the session's connection, inside its transaction."""
    connection = session.connection().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    return connection
