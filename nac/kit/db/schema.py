"""Check that the database has the schema of this version of Admit.

A revision is the number of a migration, in the name of its file `migrations/versions/<revision>_<name>.py`. This module
does not import Alembic, which takes a quarter of a second to load.
"""

from importlib.resources import files

from sqlalchemy import Engine, column, inspect, select, table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from nac.kit.db.error_translation import translate_error
from nac.kit.errors import ConnectionsInUse, SchemaTooNew, SchemaTooOld

_VERSION_TABLE = table("alembic_version", column("version_num"))


def list_revisions() -> list[str]:
    """Return the revisions that this version of Admit contains, oldest first."""
    names = (entry.name for entry in files("migrations").joinpath("versions").iterdir())
    return sorted(name.partition("_")[0] for name in names if name[:1].isdecimal())


def require_current_schema(engine: Engine) -> None:
    """Raise SchemaTooNew or SchemaTooOld if the database does not have exactly the schema of this version.

    Raises DatabaseUnavailable if the database does not respond, and ConnectionsInUse if no connection is free.
    """
    known = list_revisions()
    try:
        with engine.connect() as connection:
            present = inspect(connection).has_table("alembic_version")
            revision = connection.scalar(select(_VERSION_TABLE.c.version_num)) if present else None
    except DBAPIError as exc:
        raise translate_error(exc) from exc
    except PoolTimeout as exc:
        raise ConnectionsInUse(remedy="Try again in a few seconds.") from exc
    if revision == known[-1]:
        return
    if revision is not None and revision not in known:
        raise unknown_schema_error(revision)
    raise SchemaTooOld(
        f"The database has schema {revision or 'none'}, but this version needs {known[-1]}.",
        remedy="Start Admit, which migrates the database.",
    )


def unknown_schema_error(revision: str) -> SchemaTooNew | SchemaTooOld:
    """Return the error for a database with a revision that this version of Admit does not contain."""
    oldest = list_revisions()[0]
    if revision < oldest:
        return SchemaTooOld(
            f"The database has schema {revision}, but this version upgrades only from {oldest}.",
            remedy="Upgrade with an older version of Admit first, or create a new database.",
        )
    return SchemaTooNew(
        f"The database has the unknown schema {revision}: a newer version of Admit migrated the database.",
        remedy="Install that version, or restore a backup from before the upgrade.",
    )
