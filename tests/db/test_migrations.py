from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, text

from nac.kit.db import make_engine, require_current_schema
from nac.kit.db.migration import alembic_config, upgrade_schema
from nac.kit.db.schema import list_revisions
from nac.kit.errors import SchemaTooNew, SchemaTooOld
from tests.postgres import Cluster, Database


def test_models_match_the_migrated_database(database: Database) -> None:
    command.check(alembic_config(database.owner_url))


@pytest.mark.parametrize("role", ["admit_app", "admit_cell", "admit_worker"])
def test_migrated_database_is_accepted_by_every_role(database: Database, role: str) -> None:
    engine = make_engine(database.url(role))
    require_current_schema(engine)
    engine.dispose()


def test_migrating_twice_changes_nothing(database: Database) -> None:
    upgrade_schema(database.owner_url)


def test_waiting_migration_holds_no_locks_and_loses_no_rows(cluster: Cluster) -> None:
    url = cluster.create_database("older", migrated=False).owner_url
    command.upgrade(alembic_config(url), "0001")
    engine = make_engine(url, pool_size=2)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO endpoint_sightings (tenant_id, mac, last_seen_at, permitted) "
            "VALUES (gen_random_uuid(), '00:1b:a9:00:00:01', now(), true)"
        )
    with ThreadPoolExecutor(1) as other, engine.connect() as holder, engine.connect() as shipper:
        holder.execute(text("LOCK TABLE endpoints IN ACCESS SHARE MODE"))
        migrating = other.submit(upgrade_schema, url)
        with pytest.raises(TimeoutError):
            migrating.result(2)
        shipper.execute(text("SET lock_timeout = '100ms'"))
        shipper.execute(text("SELECT count(*) FROM auth_log"))
        shipper.rollback()
        holder.rollback()
        migrating.result()
        assert shipper.execute(text("SELECT mac::text FROM endpoint_work")).scalars().all() == ["00:1b:a9:00:00:01"]
        assert shipper.scalar(text("SELECT first_seen_at = last_seen_at FROM endpoint_sightings"))
    engine.dispose()


def test_unmigrated_database_is_rejected(cluster: Cluster) -> None:
    engine = make_engine(cluster.create_database("bare", migrated=False).owner_url)
    with pytest.raises(SchemaTooOld, match="schema none, but this version needs 0"):
        require_current_schema(engine)
    engine.dispose()


def test_newer_database_is_rejected_by_processes_and_migration(database: Database, owner_engine: Engine) -> None:
    with owner_engine.begin() as connection:
        current = connection.scalar(text("SELECT version_num FROM alembic_version"))
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    try:
        with pytest.raises(SchemaTooNew, match="9999"):
            require_current_schema(owner_engine)
        with pytest.raises(SchemaTooNew, match="9999"):
            upgrade_schema(database.owner_url)
    finally:
        with owner_engine.begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = :current"), {"current": current})


def test_built_in_revisions_match_alembic() -> None:
    scripts = ScriptDirectory.from_config(alembic_config()).walk_revisions()
    assert list_revisions() == [script.revision for script in scripts][::-1]
