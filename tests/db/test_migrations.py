from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, text

from nac.kit.db import make_engine, require_current_schema
from nac.kit.db.migration import BASELINE, alembic_config, upgrade_schema
from nac.kit.db.schema import list_revisions
from nac.kit.errors import SchemaTooNew, SchemaTooOld
from tests.db.catalogue import create_baseline, list_differences, read_catalogue
from tests.db.next_version import upgrade_to_version, write_next_version
from tests.postgres import Cluster, Database


def test_models_match_the_migrated_database(database: Database) -> None:
    command.check(alembic_config(database.owner_url))


def test_migrated_database_is_accepted_by_every_role(database: Database) -> None:
    for role in ("admit_app", "admit_cell", "admit_worker"):
        engine = make_engine(database.url(role))
        require_current_schema(engine)
        engine.dispose()
    # Migrating twice changes nothing.
    upgrade_schema(database.owner_url)


def test_upgraded_baseline_equals_new_database(cluster: Cluster) -> None:
    """If this test fails, a file in `migrations/sql` has changed without a revision that changes existing databases."""
    new = cluster.create_database("catalogue_new")
    upgraded = create_baseline(cluster, "catalogue_upgraded")
    upgrade_schema(upgraded.owner_url)
    assert list_differences(read_catalogue(upgraded), read_catalogue(new)) == []


def test_next_revision_upgrades_to_the_schema_of_its_files(cluster: Cluster, tmp_path: Path) -> None:
    """The later version has a new column, and a function, a trigger and a policy that use it."""
    write_next_version(tmp_path)
    new = cluster.create_database("catalogue_next", migrated=False)
    upgraded = create_baseline(cluster, "catalogue_next_upgraded")
    for database in (new, upgraded):
        upgrade_to_version(tmp_path, database)
    catalogue = read_catalogue(new)
    assert list_differences(read_catalogue(upgraded), catalogue) == []
    assert "rank integer" in catalogue["Name: pools; Type: TABLE; Schema: public; Owner: admit_owner"]
    assert "rank" in catalogue["Name: pools ranked; Type: POLICY; Schema: public; Owner: admit_owner"]


def test_blocked_migration_times_out_and_can_be_repeated(cluster: Cluster) -> None:
    database = create_baseline(cluster, "blocked")
    with psycopg.connect(database.owner_url) as other, psycopg.connect(database.owner_url, autocommit=True) as reader:
        other.execute("ALTER FUNCTION waiting_work COST 99")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            upgrade_schema(database.owner_url)
        assert _revision(reader) == list_revisions()[-2]
        other.rollback()
        upgrade_schema(database.owner_url)
        assert _revision(reader) == list_revisions()[-1]


def test_failed_installation_leaves_an_empty_database(cluster: Cluster) -> None:
    database = cluster.create_database("incomplete", migrated=False)
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        # The last statements of the baseline create daily partitions of this table.
        connection.execute("CREATE TABLE sessions ()")
        with pytest.raises(psycopg.errors.DuplicateTable):
            upgrade_schema(database.owner_url)
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        assert tables == [("sessions",)]
        connection.execute("DROP TABLE sessions")
    upgrade_schema(database.owner_url)


def test_unmigrated_database_is_rejected(cluster: Cluster) -> None:
    engine = make_engine(cluster.create_database("bare", migrated=False).owner_url)
    with pytest.raises(SchemaTooOld, match="schema none, but this version needs 0"):
        require_current_schema(engine)
    engine.dispose()


@pytest.mark.parametrize(
    ("revision", "error", "words"),
    [("9999", SchemaTooNew, "9999"), ("0076", SchemaTooOld, f"upgrades only from {BASELINE}")],
)
def test_newer_or_older_database_is_rejected(
    database: Database, owner_engine: Engine, revision: str, error: type[Exception], words: str
) -> None:
    with _changed_revision(owner_engine, revision):
        with pytest.raises(error, match=words):
            require_current_schema(owner_engine)
        with pytest.raises(error, match=words):
            upgrade_schema(database.owner_url)


def test_built_in_revisions_match_alembic() -> None:
    scripts = ScriptDirectory.from_config(alembic_config()).walk_revisions()
    assert list_revisions() == [script.revision for script in scripts][::-1]


@contextmanager
def _changed_revision(engine: Engine, revision: str) -> Iterator[None]:
    update = text("UPDATE alembic_version SET version_num = :revision")
    with engine.begin() as connection:
        current = connection.scalar(text("SELECT version_num FROM alembic_version"))
        connection.execute(update, {"revision": revision})
    try:
        yield
    finally:
        with engine.begin() as connection:
            connection.execute(update, {"revision": current})


def _revision(connection: psycopg.Connection) -> str:
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    assert row is not None
    (revision,) = row
    return str(revision)
