"""Roles, database and schema in the running cluster. Loads the database libraries, which `status` must not."""

import psycopg
from psycopg import sql

from cli.cluster import DATABASE, SUPERUSER, url
from cli.layout import CHECKOUT, Layout
from nac.db.migrating import upgrade_schema


def prepare_database(layout: Layout) -> bool:
    """Roles and the database, where they are missing; True when the database was made."""
    roles = (CHECKOUT / "migrations" / "roles.sql").read_text(encoding="utf-8")
    target = f"postgresql://{SUPERUSER}@/postgres?host={layout.run}"
    with psycopg.connect(target, autocommit=True, application_name="admit-up") as connection:
        connection.execute(roles.encode())
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone()
        if known:
            return False
        connection.execute(sql.SQL("CREATE DATABASE {} OWNER admit_owner").format(sql.Identifier(DATABASE)))
        return True


def migrate(layout: Layout) -> None:
    """Bring the schema up to this version as admit_owner. Raises SchemaTooNew where the code is older."""
    upgrade_schema(url(layout, "admit_owner"))
