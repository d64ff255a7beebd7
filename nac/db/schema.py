"""Migrations as functions: upgrade at set-up, and the check by which a process refuses a database it does not fit."""

from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, column, inspect, select, table
from sqlalchemy.exc import DBAPIError

from nac.db.failures import translate
from nac.errors import SchemaTooNew, SchemaTooOld

_VERSION = table("alembic_version", column("version_num"))


def alembic_config(owner_url: str = "") -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("migrations")))
    config.attributes["url"] = owner_url
    return config


def upgrade_schema(owner_url: str) -> None:
    """Migrate to this version's schema as role admit_owner; refuses a database that is newer."""
    command.upgrade(alembic_config(owner_url), "head")


def require_current_schema(engine: Engine) -> None:
    """Raise SchemaTooNew or SchemaTooOld unless the database has exactly this version's schema.

    DatabaseUnavailable where it does not answer.
    """
    scripts = ScriptDirectory.from_config(alembic_config())
    head = scripts.get_current_head()
    try:
        with engine.connect() as connection:
            present = inspect(connection).has_table("alembic_version")
            revision = connection.scalar(select(_VERSION.c.version_num)) if present else None
    except DBAPIError as exc:
        raise translate(exc) from exc
    if revision == head:
        return
    if revision is not None and revision not in {script.revision for script in scripts.walk_revisions()}:
        raise too_new(revision)
    raise SchemaTooOld(
        f"The database has schema {revision or 'none'}, this version needs {head}.",
        remedy="Migrate it first: ./admit up does.",
    )


def too_new(revision: str) -> SchemaTooNew:
    return SchemaTooNew(
        f"The database has schema {revision}, which this version does not know: it was migrated by a newer one.",
        remedy="Install that version, or restore the database from before the upgrade.",
    )
