import pytest
from alembic import command
from sqlalchemy import Engine, text

from nac.db import make_engine, require_current_schema, upgrade_schema
from nac.db.schema import alembic_config
from nac.errors import SchemaTooNew, SchemaTooOld
from tests.postgres import Cluster, Database


def test_models_against_migrated_database_do_not_differ(database: Database) -> None:
    command.check(alembic_config(database.owner_url))


@pytest.mark.parametrize("role", ["admit_app", "admit_cell", "admit_worker"])
def test_migrated_database_is_accepted_by_every_role(database: Database, role: str) -> None:
    engine = make_engine(database.url(role))
    require_current_schema(engine)
    engine.dispose()


def test_migrated_database_migrated_again_stays_as_it_is(database: Database) -> None:
    upgrade_schema(database.owner_url)


def test_database_not_migrated_is_refused(cluster: Cluster) -> None:
    engine = make_engine(cluster.create_database("bare", migrated=False).owner_url)
    with pytest.raises(SchemaTooOld, match="schema none, this version needs 0"):
        require_current_schema(engine)
    engine.dispose()


def test_database_of_newer_version_is_refused_by_processes_and_by_migration(
    database: Database, owner_engine: Engine
) -> None:
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
