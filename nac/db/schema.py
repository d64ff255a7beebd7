"""The check by which a process refuses a database that it does not fit.

Without Alembic, which takes a command a quarter of a second to load: each migration is the file
`migrations/versions/<revision>_<word>.py`, and they follow one another by their numbers.
"""

from importlib.resources import files

from sqlalchemy import Engine, column, inspect, select, table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from nac.db.failures import translate
from nac.errors import ConnectionsInUse, SchemaTooNew, SchemaTooOld

_VERSION = table("alembic_version", column("version_num"))


def revisions() -> list[str]:
    """Of this version, the oldest first."""
    names = (entry.name for entry in files("migrations").joinpath("versions").iterdir())
    return sorted(name.partition("_")[0] for name in names if name[:1].isdecimal())


def require_current_schema(engine: Engine) -> None:
    """Raise SchemaTooNew or SchemaTooOld unless the database has exactly this version's schema.

    DatabaseUnavailable where it does not answer, ConnectionsInUse where none is left to ask it.
    """
    known = revisions()
    try:
        with engine.connect() as connection:
            present = inspect(connection).has_table("alembic_version")
            revision = connection.scalar(select(_VERSION.c.version_num)) if present else None
    except DBAPIError as exc:
        raise translate(exc) from exc
    except PoolTimeout as exc:
        raise ConnectionsInUse(remedy="Try again in some seconds.") from exc
    if revision == known[-1]:
        return
    if revision is not None and revision not in known:
        raise too_new(revision)
    raise SchemaTooOld(
        f"The database has schema {revision or 'none'}, this version needs {known[-1]}.",
        remedy="Migrate it first: ./admit up does.",
    )


def too_new(revision: str) -> SchemaTooNew:
    return SchemaTooNew(
        f"The database has schema {revision}, which this version does not know: it was migrated by a newer one.",
        remedy="Install that version, or restore the database from before the upgrade.",
    )
