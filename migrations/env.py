"""Alembic's environment, as admit_owner. The URL comes from `nac.kit.db.migration` or ADMIT_DATABASE_OWNER_URL."""

import os

from alembic import context
from alembic.util.exc import CommandError
from sqlalchemy import Connection, text

import nac.models  # noqa: F401  (completes the metadata)
from nac.kit.db.base import Base
from nac.kit.db.engine import make_engine
from nac.kit.db.schema import schema_too_new_error

# A migration waits this long for a lock at most, because whoever comes after it waits too.
_TIMEOUTS = text("SELECT set_config('lock_timeout', '5s', false), set_config('statement_timeout', '300s', false)")


def _is_ours(name: str | None, type_: str, parents: object) -> bool:
    """Daily partitions come and go; they are no part of the model."""
    return type_ != "table" or name in Base.metadata.tables


def _refuse_newer(connection: Connection) -> None:
    revision = context.get_context().get_current_revision()
    try:
        if revision is not None:
            context.script.get_revision(revision)
    except CommandError as exc:
        raise schema_too_new_error(revision or "") from exc


def _migrate() -> None:
    url = context.config.attributes.get("url") or os.environ["ADMIT_DATABASE_OWNER_URL"]
    # Longer than PostgreSQL gives a statement of a migration.
    engine = make_engine(url, pool_size=1, application_name="admit-migrate", statement_seconds=360)
    try:
        with engine.connect() as connection:
            connection.execute(_TIMEOUTS)
            connection.commit()  # house: allow commit -- ends the transaction of the SET; migrations run in their own
            context.configure(
                connection=connection,
                target_metadata=Base.metadata,
                include_name=_is_ours,
                compare_type=True,
                # What one has locked, the logs say, must not stay so while the next fills a table.
                transaction_per_migration=True,
            )
            _refuse_newer(connection)
            with context.begin_transaction():
                context.run_migrations()
    finally:
        engine.dispose()


_migrate()
