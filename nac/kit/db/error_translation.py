"""Translation of database driver errors into errors of nac.kit.errors.

Concurrent requests can pass Admit's checks and then violate a constraint of the database. Models declare the error
messages for their constraints (`nac.kit.db.declarations`). `report_missing_at` overrides the field name in a message.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import errors as pg
from sqlalchemy import Constraint, Index
from sqlalchemy.exc import DBAPIError

from nac.kit.db.base import Base
from nac.kit.db.declarations import Reference, UniqueConflict, describe_table
from nac.kit.db.timeouts import ServerSilent
from nac.kit.errors import (
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


def list_unique_conflicts() -> dict[str, UniqueConflict]:
    """Map the name of each unique constraint that requests can violate to its error message."""
    constraints: list[Constraint | Index] = []
    for table in Base.metadata.tables.values():
        constraints += [*table.constraints, *table.indexes]
    return {str(each.name): each.info[UniqueConflict] for each in constraints if UniqueConflict in each.info}


def find_reference(constraint: str) -> Reference | None:
    """Return the noun and the field name for errors about this foreign key, or None if no model declares them."""
    for table in Base.metadata.tables.values():
        for key in table.foreign_key_constraints:
            if key.name == constraint:
                own: Reference | None = key.info.get(Reference) or key.elements[0].info.get(Reference)
                return own or describe_table(key.referred_table).reference
    return None


def find_plural(table: str) -> str:
    """Return the plural noun for the rows of a table, for messages."""
    model = Base.metadata.tables.get(table)
    return (model is not None and describe_table(model).plural) or table.replace("_", " ")


_log = logging.getLogger(__name__)
_RELOAD_REMEDY = "Reload the object and try again."
_SILENT_REMEDY = (
    "Try again in a few seconds. The change may have been stored: reload the object before you repeat the change."
)


def translate_error(exc: DBAPIError) -> AdmitError:
    """Return Admit's error for a driver error. The name of a constraint appears only in the log."""
    cause = exc.orig
    match cause:
        case pg.UniqueViolation():
            return _unique_error(cause)
        case pg.ForeignKeyViolation():
            return _reference_error(cause)
        case pg.CheckViolation() | pg.NotNullViolation() | pg.DataError():
            return _value_error(cause)
        case pg.InsufficientPrivilege():
            return ScopeViolation(str(cause).splitlines()[0])
        case pg.LockNotAvailable():
            return HeldUp(remedy="Try again in a few seconds. The list of jobs shows long operations.")
        case pg.DeadlockDetected() | pg.SerializationFailure():
            return Overtaken(remedy="Try again.")
        case pg.QueryCanceled():
            return TookTooLong(remedy="Try again later, or request less data.")
        case ServerSilent():
            return DatabaseSilent(str(cause), remedy=_SILENT_REMEDY)
        case pg.OperationalError():
            return DatabaseUnavailable(reason=str(cause).splitlines()[0], remedy="Check that PostgreSQL is running.")
        case _:
            return AdmitError(str(cause).splitlines()[0])


@contextmanager
def report_missing_at(place: str) -> Iterator[None]:
    """Set `place` of the errors about references to missing rows that this block raises.

    `place` names the list or file in which the user finds the wrong reference.
    """
    try:
        yield
    except DBAPIError as exc:
        if not (isinstance(exc.orig, pg.ForeignKeyViolation) and _is_reference_missing(exc.orig)):
            raise
        refused = _reference_error(exc.orig)
        refused.place = place
        raise refused from exc


def _unique_error(cause: pg.Error) -> AlreadyExists:
    taken = list_unique_conflicts().get(cause.diag.constraint_name or "")
    if taken is None:
        _log.warning("constraint %s rejected a change", cause.diag.constraint_name)
        return AlreadyExists("The object already exists.", place=cause.diag.table_name or "", remedy=_RELOAD_REMEDY)
    return AlreadyExists(taken.detail, place=taken.place, remedy=taken.remedy)


def _reference_error(cause: pg.Error) -> AdmitError:
    """Return the error for a delete of a row in use, or for a reference to a deleted row."""
    _log.info("constraint %s rejected a change", cause.diag.constraint_name)
    if _is_reference_missing(cause):
        named = find_reference(cause.diag.constraint_name or "")
        what, place = ("something", "") if named is None else (named.what, named.place)
        return Conflict(f"The request refers to {what} that does not exist.", place=place, remedy=_RELOAD_REMEDY)
    referring = find_plural(cause.diag.table_name or "another object")
    return InUse(
        f"The object is still in use by: {referring}.",
        remedy="First change or delete the objects that use this object.",
    )


def _is_reference_missing(cause: pg.Error) -> bool:
    """Return True if the statement wrote a row that refers to a missing row.

    Returns False if the statement deleted a row to which another row refers. Only PostgreSQL's error message shows the
    difference.
    """
    return (cause.diag.message_primary or "").startswith("insert or update")


def _value_error(cause: pg.Error) -> InvalidInput:
    """Return the error for a value that Admit's own checks did not reject."""
    refused_by, table = cause.diag.constraint_name or cause.diag.column_name, cause.diag.table_name or ""
    if refused_by:
        _log.warning("constraint %s of %s rejected a change", refused_by, table)
        # The name of a check constraint usually contains its column.
        place = f"{table}.{refused_by.removeprefix(f'ck_{table}_')}"
        return InvalidInput("The database rejects a value.", place=place)
    return InvalidInput(f"The database rejects a value: {str(cause).splitlines()[0]}.")
