"""The current SQL of the schema: `migrations/sql/<kind>/<noun>.sql`.

The kinds are schema (tables, indexes, views, grants), functions, triggers and policies. An empty database gets all
files. Later revisions change tables with their own statements, and name changed files of the other kinds in `replaced`.
"""

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

import sqlalchemy
from psycopg import Connection, sql

SQL_FILES = files("migrations").joinpath("sql")

# Order in which the tables are created. The tables of a noun come after all tables to which they refer.
NOUNS = (
    "database",
    "scope",
    "msp",
    "tenant",
    "policy",
    "site",
    "user",
    "endpoint",
    "cell",
    "nas",
    "identity_source",
    "enrolment",
    "certificate",
    "certificate_status",
    "external",
    "scep",
    "replica_change",
    "log",
    "session",
    "coa_request",
    "redecision",
    "pool",
    "retention",
    "export",
    "event_note",
    "feed",
    "job",
    "idempotency",
    "account",
    "account_mail",
    "sign_on",
    "sign_in",
    "audit",
    "alarm",
    "mail",
    "self_test",
    "secret_rotation",
    "template",
    "trial",
)


def list_nouns(kind: str) -> list[str]:
    """Return the nouns that have a file of this kind, in order."""
    return [noun for noun in NOUNS if SQL_FILES.joinpath(kind, f"{noun}.sql").is_file()]


def create_schema(connection: Connection[Any]) -> None:
    """Create everything in an empty database, in the transaction of the connection."""
    for noun in list_nouns("schema"):
        connection.execute(_read("schema", noun))
    replace_functions(connection, *list_nouns("functions"))
    replace_triggers(connection, *list_nouns("triggers"))
    replace_policies(connection, *list_nouns("policies"))


def replace_functions(connection: Connection[Any], *nouns: str) -> None:
    """Create or replace the functions of the nouns. Only roles with a grant can execute them."""
    # A function can call a function of a later file, so its body is not checked.
    connection.execute("SET LOCAL check_function_bodies = off")
    for noun in nouns:
        connection.execute(_read("functions", noun))
    connection.execute("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC")


def replace_triggers(connection: Connection[Any], *nouns: str) -> None:
    """Create or replace the triggers of the nouns' tables."""
    for noun in nouns:
        connection.execute(_read("triggers", noun))


def replace_policies(connection: Connection[Any], *nouns: str) -> None:
    """Replace all policies of the nouns' tables. Policies that a file does not contain are dropped."""
    for noun in nouns:
        text = _read("policies", noun)
        tables = re.findall(rb"^ALTER TABLE (\w+) ENABLE ROW LEVEL SECURITY", text, re.MULTILINE)
        _drop_policies(connection, [table.decode() for table in tables])
        connection.execute(text)


def replace_files(connection: Connection[Any], replaced: Iterable[Mapping[str, Iterable[str]]]) -> None:
    """Execute the files that revisions name by kind and noun."""
    nouns: dict[str, set[str]] = {"functions": set(), "triggers": set(), "policies": set()}
    for files_of_revision in replaced:
        for kind, names in files_of_revision.items():
            nouns[kind].update(names)
    replace_functions(connection, *sorted(nouns["functions"]))
    replace_triggers(connection, *sorted(nouns["triggers"]))
    replace_policies(connection, *sorted(nouns["policies"]))


def driver_connection(connection: sqlalchemy.Connection) -> Connection[Any]:
    """Return the connection of psycopg, which executes several statements at once."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, Connection)
    return driver


def _drop_policies(connection: Connection[Any], tables: list[str]) -> None:
    policies = connection.execute(
        "SELECT policyname, tablename FROM pg_policies WHERE schemaname = 'public' AND tablename = ANY (%s)", [tables]
    ).fetchall()
    for policy, table in policies:
        connection.execute(sql.SQL("DROP POLICY {} ON {}").format(sql.Identifier(policy), sql.Identifier(table)))


def _read(kind: str, noun: str) -> bytes:
    return SQL_FILES.joinpath(kind, f"{noun}.sql").read_bytes()
