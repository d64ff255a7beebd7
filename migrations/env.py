"""Alembic's environment. Migrations run with the database role admit_owner.

The database URL comes from `nac.kit.db.migration` or ADMIT_DATABASE_OWNER_URL.
"""

import os

from alembic import context
from alembic.runtime.migration import MigrationContext, MigrationInfo
from alembic.util.exc import CommandError
from sqlalchemy import text

import nac.models  # noqa: F401  (completes the metadata)
from migrations.sql_files import driver_connection, replace_files
from nac.kit.db.base import Base
from nac.kit.db.engine import make_engine
from nac.kit.db.migration import BASELINE
from nac.kit.db.schema import unknown_schema_error

# The lock timeout is short, because other statements wait behind a migration that waits for a lock.
_TIMEOUTS = text("SELECT set_config('lock_timeout', '5s', false), set_config('statement_timeout', '300s', false)")


def _is_ours(name: str | None, type_: str, parents: object) -> bool:
    """Whether Alembic compares the object with the models.

    Daily partitions are not in the models, so Alembic skips them.
    """
    return type_ != "table" or name in Base.metadata.tables


def _require_known(revision: str | None) -> None:
    """Raise SchemaTooNew or SchemaTooOld if this version of Admit does not know the database's revision."""
    if revision is None:
        return
    try:
        context.script.get_revision(revision)
    except CommandError as exc:
        raise unknown_schema_error(revision) from exc


def _stamp_new_database() -> None:
    """Mark a database that has just run the baseline as fully migrated.

    The baseline creates the schema from the current files, which include the changes of all later revisions.
    """
    migrations = context.get_context()
    if migrations.get_current_revision() == BASELINE:
        migrations.stamp(context.script, "head")


def _replace_files(*, ctx: MigrationContext, step: MigrationInfo, **_: object) -> None:
    """Execute the SQL files of all revisions, in the transaction of the last revision.

    An earlier revision cannot execute a file, because the file may need columns of a later revision. The files of all
    revisions run, because an earlier upgrade may have stopped before its last revision.
    """
    if step.up_revision_id == context.script.get_current_head():
        assert ctx.connection is not None
        scripts = context.script.walk_revisions()
        replaced = [getattr(script.module, "replaced", {}) for script in scripts]
        replace_files(driver_connection(ctx.connection), replaced)


def _migrate() -> None:
    url = context.config.attributes.get("url") or os.environ["ADMIT_DATABASE_OWNER_URL"]
    # The timeout is longer than PostgreSQL's limit for a statement of a migration.
    engine = make_engine(url, pool_size=1, application_name="admit-migrate", statement_seconds=360)
    try:
        with engine.connect() as connection:
            connection.execute(_TIMEOUTS)
            revision = MigrationContext.configure(connection).get_current_revision()
            connection.commit()  # house: allow commit -- ends the transaction of the SET; migrations run in their own
            _require_known(revision)
            is_new = revision is None
            context.configure(
                connection=connection,
                target_metadata=Base.metadata,
                include_name=_is_ours,
                compare_type=True,
                # The locks of a migration must end before the next migration fills a table. A new database has no
                # other users, so its schema and its revision are committed together.
                transaction_per_migration=not is_new,
                on_version_apply=_replace_files,
            )
            with context.begin_transaction():
                context.run_migrations()
                if is_new:
                    _stamp_new_database()
    finally:
        engine.dispose()


_migrate()
