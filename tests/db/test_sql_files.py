"""The SQL files of the schema: their folders, and their agreement with the database."""

import psycopg

from migrations.sql_files import SQL_FILES, list_nouns, replace_functions, replace_policies, replace_triggers
from nac.kit.db.base import Base
from tests.db.catalogue import list_differences, read_catalogue
from tests.postgres import Cluster, Database

# Changes that a developer may forget to write a revision for, and the objects that differ.
CHANGES = {
    "ALTER TABLE pools ADD COLUMN extra int": "pools; Type: TABLE;",
    "ALTER TABLE feeds ALTER COLUMN lost SET DEFAULT 1": "feeds; Type: TABLE;",
    "ALTER TABLE coa_requests ALTER tenant_id SET STATISTICS 10": "coa_requests; Type: TABLE;",
    "ALTER TABLE cells SET (fillfactor = 60)": "cells; Type: TABLE;",
    "ALTER TABLE nases DROP CONSTRAINT ck_nases_single_host": "nases; Type: TABLE;",
    "DROP INDEX ix_tenants_msp_id": "ix_tenants_msp_id; Type: INDEX;",
    "ALTER FUNCTION waiting_work COST 99": "waiting_work(interval); Type: FUNCTION;",
    "GRANT EXECUTE ON FUNCTION waiting_work TO PUBLIC": "FUNCTION waiting_work(list_every interval); Type: ACL;",
    "DROP TRIGGER purged ON tenants": "tenants purged; Type: TRIGGER;",
    "ALTER POLICY tenant_scope ON pools TO admit_app": "pools tenant_scope; Type: POLICY;",
    "ALTER TABLE pools DISABLE ROW LEVEL SECURITY": "pools; Type: ROW SECURITY;",
    "GRANT DELETE ON audit_log TO admit_worker": "TABLE audit_log; Type: ACL;",
    "GRANT SELECT (name) ON people TO admit_cell": "COLUMN people.name; Type: ACL;",
    "INSERT INTO retention_limits VALUES ('auth', 2, 2, 2)": "retention_limits; Type: TABLE DATA;",
}


def test_files_executed_again_change_nothing(cluster: Cluster) -> None:
    database = cluster.create_database("sql_files")
    before = read_catalogue(database)
    with psycopg.connect(database.owner_url) as connection:
        replace_functions(connection, *list_nouns("functions"))
        replace_triggers(connection, *list_nouns("triggers"))
        replace_policies(connection, *list_nouns("policies"))
    assert list_differences(before, read_catalogue(database)) == []


def test_function_bodies_compile_in_the_database(database: Database) -> None:
    """PostgreSQL does not check function bodies while it executes the files, because a function can call a later
    function.
    """
    with psycopg.connect(database.owner_url) as connection:
        functions = connection.execute(
            "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
        ).fetchall()
        for (definition,) in functions:
            connection.execute(definition.encode())
        connection.rollback()
    assert len(functions) > 100


def test_comparison_reports_every_kind_of_change(cluster: Cluster) -> None:
    changed = cluster.create_database("sql_files_changed")
    before = read_catalogue(changed)
    with psycopg.connect(changed.superuser_url) as connection:
        for change in CHANGES:
            connection.execute(change.encode())
    differences = list_differences(before, read_catalogue(changed))
    assert [title for title in CHANGES.values() if not any(title in found for found in differences)] == []
    assert len(differences) == len(CHANGES)


def test_policy_missing_in_the_file_is_dropped(cluster: Cluster) -> None:
    database = cluster.create_database("sql_files_policies")
    expected = read_catalogue(database)
    with psycopg.connect(database.owner_url) as connection:
        connection.execute("CREATE POLICY open_door ON pools TO admit_app USING (true)")
        replace_policies(connection, "pool")
    assert list_differences(expected, read_catalogue(database)) == []


def test_every_file_belongs_to_a_known_noun() -> None:
    nouns = {mapper.class_.__module__.rpartition(".")[2] for mapper in Base.registry.mappers}
    files = {file.name for kind in SQL_FILES.iterdir() for file in kind.iterdir()}
    assert files == {f"{noun}.sql" for noun in (*nouns, "database", "scope")}


def test_tables_are_in_the_file_of_their_model() -> None:
    for mapper in Base.registry.mappers:
        noun = mapper.class_.__module__.rpartition(".")[2]
        text = SQL_FILES.joinpath("schema", f"{noun}.sql").read_text(encoding="utf-8")
        assert f"CREATE TABLE {mapper.local_table.description} (" in text
