"""The one place that turns driver errors into errors of ours."""

import logging

from psycopg import errors as pg
from sqlalchemy.exc import DBAPIError

from nac.db.constraints import TAKEN
from nac.errors import (
    AdmitError,
    AlreadyExists,
    Conflict,
    DatabaseUnavailable,
    InUse,
    InvalidInput,
    Overtaken,
    ScopeViolation,
    TookTooLong,
)

_log = logging.getLogger(__name__)
_READ = "Read it again, and decide anew."


def translate(exc: DBAPIError) -> AdmitError:
    """In sentences for whoever asked: what the database calls its constraints is for the log."""
    cause = exc.orig
    match cause:
        case pg.UniqueViolation():
            return _of_key(cause)
        case pg.ForeignKeyViolation():
            return _of_reference(cause)
        case pg.CheckViolation() | pg.NotNullViolation() | pg.DataError():
            return _of_value(cause)
        case pg.InsufficientPrivilege():
            return ScopeViolation(str(cause).splitlines()[0])
        case pg.LockNotAvailable() | pg.DeadlockDetected() | pg.SerializationFailure():
            return Overtaken(remedy="Try again.")
        case pg.QueryCanceled():
            return TookTooLong(remedy="Try again later, or ask for less at once.")
        case pg.OperationalError():
            return DatabaseUnavailable(str(cause).splitlines()[0], remedy="Is PostgreSQL up?")
        case _:
            return AdmitError(str(cause).splitlines()[0])


def _of_key(cause: pg.Error) -> AlreadyExists:
    taken = TAKEN.get(cause.diag.constraint_name or "")
    if taken is None:
        _log.warning("a change is refused by %s", cause.diag.constraint_name)
        return AlreadyExists("The same is there already.", place=cause.diag.table_name or "", remedy=_READ)
    return AlreadyExists(taken.detail, place=taken.place, remedy=taken.remedy)


def _of_reference(cause: pg.Error) -> AdmitError:
    """What is removed while something refers to it, or referred to while it is removed."""
    _log.info("a change is refused by %s", cause.diag.constraint_name)
    # Nothing else tells which of the two it is.
    if (cause.diag.message_primary or "").startswith("insert or update"):
        detail = "It names something that is not there, or not any more."
        return Conflict(detail, place=cause.diag.table_name or "", remedy=_READ)
    referring = (cause.diag.table_name or "something else").replace("_", " ")
    return InUse(f"It is still referred to: {referring}.", remedy="Change or remove that first.")


def _of_value(cause: pg.Error) -> InvalidInput:
    """What our own checks have let through."""
    refused_by, table = cause.diag.constraint_name or cause.diag.column_name, cause.diag.table_name or ""
    if refused_by:
        _log.warning("a change is refused by %s of %s", refused_by, table)
        # A check is called by what it is about, mostly a column.
        place = f"{table}.{refused_by.removeprefix(f'ck_{table}_')}"
        return InvalidInput("The database refuses a value.", place=place)
    return InvalidInput(f"The database refuses a value: {str(cause).splitlines()[0]}.")
