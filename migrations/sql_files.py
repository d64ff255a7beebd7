"""The current SQL of the schema: `migrations/sql/<kind>/<noun>.sql`.

The kinds are schema (tables, indexes, views, grants), functions, triggers and policies. A noun, such as `tenant`,
stands for a subject with one or several tables. Admit executes all files in an empty database. A later revision changes
tables with its own statements. If files of functions, triggers or policies change, the revision names them in
`replaced`.
"""

import re
from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from importlib.resources import files
from typing import Any

import sqlalchemy
from psycopg import Connection, sql

SQL_FILES = files("migrations").joinpath("sql")


def list_nouns(kind: str) -> list[str]:
    return sorted(file.name.removesuffix(".sql") for file in SQL_FILES.joinpath(kind).iterdir())


def order_by_reference() -> list[str]:
    """Return the nouns that have tables, in the order of creation.

    If the tables of a noun refer to tables of other nouns, the noun comes after these nouns.
    """
    created: dict[str, str] = {}
    named: dict[str, list[str]] = {}
    for noun in list_nouns("schema"):
        text = _read("schema", noun).decode()
        created |= dict.fromkeys(re.findall(r"^CREATE TABLE (\w+)", text, re.MULTILINE), noun)
        named[noun] = re.findall(r"\b(?:REFERENCES|ALTER TABLE) (\w+)", text)
    # The file of `database` comes first. It creates no table, but checks that the database roles exist.
    order = TopologicalSorter({noun: {"database"} for noun in named if noun != "database"})
    for noun, tables in named.items():
        order.add(noun, *({created[table] for table in tables} - {noun}))
    return list(order.static_order())


def create_schema(connection: Connection[Any]) -> None:
    """Create the whole schema in an empty database, in the transaction of the connection."""
    for noun in order_by_reference():
        connection.execute(_read("schema", noun))
    replace_functions(connection, *list_nouns("functions"))
    replace_triggers(connection, *list_nouns("triggers"))
    replace_policies(connection, *list_nouns("policies"))


def replace_functions(connection: Connection[Any], *nouns: str) -> None:
    """Create or replace the functions of the nouns. Only roles with a grant can execute these functions."""
    # Do not check function bodies, because a function can call a function of a later file.
    connection.execute("SET LOCAL check_function_bodies = off")
    for noun in nouns:
        connection.execute(_read("functions", noun))
    connection.execute("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC")


def replace_triggers(connection: Connection[Any], *nouns: str) -> None:
    """Create or replace the triggers of the nouns' tables."""
    for noun in nouns:
        connection.execute(_read("triggers", noun))


def replace_policies(connection: Connection[Any], *nouns: str) -> None:
    """Replace all row-level security policies of the nouns' tables.

    This also drops policies that a file no longer has.
    """
    for noun in nouns:
        text = _read("policies", noun)
        tables = re.findall(rb"^ALTER TABLE (\w+) ENABLE ROW LEVEL SECURITY", text, re.MULTILINE)
        _drop_policies(connection, [table.decode() for table in tables])
        connection.execute(text)


def replace_files(connection: Connection[Any], replaced: Iterable[Mapping[str, Iterable[str]]]) -> None:
    """Execute the files that revisions name in `replaced`, by kind and noun."""
    nouns: dict[str, set[str]] = {"functions": set(), "triggers": set(), "policies": set()}
    for files_of_revision in replaced:
        for kind, names in files_of_revision.items():
            nouns[kind].update(names)
    replace_functions(connection, *sorted(nouns["functions"]))
    replace_triggers(connection, *sorted(nouns["triggers"]))
    replace_policies(connection, *sorted(nouns["policies"]))


def driver_connection(connection: sqlalchemy.Connection) -> Connection[Any]:
    """Return the psycopg connection, which can execute several statements at once."""
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
