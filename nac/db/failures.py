"""The one place that turns driver errors into errors of ours."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import errors as pg
from sqlalchemy.exc import DBAPIError

from nac.db.constraints import HOLDERS, TAKEN, named_by
from nac.db.waiting import ServerSilent
from nac.errors import (
    AdmitError,
    AlreadyExists,
    Conflict,
    DatabaseSilent,
    DatabaseUnavailable,
    HeldUp,
    InUse,
    InvalidInput,
    Overtaken,
    ScopeViolation,
    TookTooLong,
)

_log = logging.getLogger(__name__)
_READ = "Read it again, and decide anew."
_SILENT = "Try again in some seconds. A change may have been stored: reload before you repeat it."


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
        case pg.LockNotAvailable():
            return HeldUp(remedy="Try again in some seconds. What takes longer is listed among the jobs.")
        case pg.DeadlockDetected() | pg.SerializationFailure():
            return Overtaken(remedy="Try again.")
        case pg.QueryCanceled():
            return TookTooLong(remedy="Try again later, or ask for less at once.")
        case ServerSilent():
            return DatabaseSilent(str(cause), remedy=_SILENT)
        case pg.OperationalError():
            return DatabaseUnavailable(str(cause).splitlines()[0], remedy="Is PostgreSQL up?")
        case _:
            return AdmitError(str(cause).splitlines()[0])


@contextmanager
def naming(place: str) -> Iterator[None]:
    """What is named by statements of this block and is not there is told at `place`: a list of rows, a file."""
    try:
        yield
    except DBAPIError as exc:
        if not (isinstance(exc.orig, pg.ForeignKeyViolation) and _is_missing(exc.orig)):
            raise
        refused = _of_reference(exc.orig)
        refused.place = place
        raise refused from exc


def _of_key(cause: pg.Error) -> AlreadyExists:
    taken = TAKEN.get(cause.diag.constraint_name or "")
    if taken is None:
        _log.warning("a change is refused by %s", cause.diag.constraint_name)
        return AlreadyExists("The same is there already.", place=cause.diag.table_name or "", remedy=_READ)
    return AlreadyExists(taken.detail, place=taken.place, remedy=taken.remedy)


def _of_reference(cause: pg.Error) -> AdmitError:
    """What is removed while something refers to it, or referred to while it is removed."""
    _log.info("a change is refused by %s", cause.diag.constraint_name)
    if _is_missing(cause):
        named = named_by(cause.diag.constraint_name or "")
        what, place = ("something", "") if named is None else (named.what, named.place)
        return Conflict(f"It names {what} that is not there, or not any more.", place=place, remedy=_READ)
    table = cause.diag.table_name or "something else"
    referring = HOLDERS.get(table, table.replace("_", " "))
    return InUse(f"It is still referred to: {referring}.", remedy="Change or remove that first.")


def _is_missing(cause: pg.Error) -> bool:
    """Nothing else tells which of the two it is."""
    return (cause.diag.message_primary or "").startswith("insert or update")


def _of_value(cause: pg.Error) -> InvalidInput:
    """What our own checks have let through."""
    refused_by, table = cause.diag.constraint_name or cause.diag.column_name, cause.diag.table_name or ""
    if refused_by:
        _log.warning("a change is refused by %s of %s", refused_by, table)
        # A check is called by what it is about, mostly a column.
        place = f"{table}.{refused_by.removeprefix(f'ck_{table}_')}"
        return InvalidInput("The database refuses a value.", place=place)
    return InvalidInput(f"The database refuses a value: {str(cause).splitlines()[0]}.")
