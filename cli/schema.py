"""Roles, database and schema in the running cluster.

This module loads the database libraries, so `status` must not import it.
"""

import psycopg
from psycopg import sql

from cli.cluster import DATABASE, database_url, superuser_url
from cli.layout import CHECKOUT, Layout
from cli.passwords import Passwords
from cli.rights import OPERATOR, RIGHTS
from nac.kit.db.migration import upgrade_schema

_ROLES = sorted({role for rights in (OPERATOR, *RIGHTS.values()) for role in rights.databases.values()})


def prepare_database(layout: Layout, passwords: Passwords) -> None:
    """Create missing roles, the database, and objects that need a superuser. Sets the password of every role."""
    with psycopg.connect(superuser_url(layout, "postgres"), autocommit=True, application_name="admit-up") as connection:
        connection.execute(_read("roles.sql"))
        for role in _ROLES:
            _set_password(connection, role, passwords.get("postgresql", role))
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone()
        if not known:
            connection.execute(sql.SQL("CREATE DATABASE {} OWNER admit_owner").format(sql.Identifier(DATABASE)))
    with psycopg.connect(superuser_url(layout), autocommit=True, application_name="admit-up") as connection:
        connection.execute(_read("machine.sql"))


def _read(name: str) -> bytes:
    return (CHECKOUT / "migrations" / name).read_bytes()


def _set_password(connection: psycopg.Connection, role: str, password: str) -> None:
    """Set the password of a role as SCRAM verifier, so that no log contains the password."""
    verifier = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    statement = sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), sql.Literal(verifier))
    connection.execute(statement)


def migrate(layout: Layout, passwords: Passwords) -> None:
    """Migrate the schema to this version as admit_owner. Raises SchemaTooNew if the code is older than the schema."""
    upgrade_schema(database_url(layout, "admit_owner", passwords.get("postgresql", "admit_owner")))
