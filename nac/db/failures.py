"""The one place that turns driver errors into errors of ours."""

from psycopg import errors as pg
from sqlalchemy.exc import DBAPIError

from nac.errors import (
    AdmitError,
    AlreadyExists,
    DatabaseUnavailable,
    InUse,
    InvalidInput,
    Overtaken,
    ScopeViolation,
    TookTooLong,
)


def translate(exc: DBAPIError) -> AdmitError:
    cause = exc.orig
    diagnostics = cause.diag if isinstance(cause, pg.Error) else None
    constraint = (diagnostics.constraint_name if diagnostics else None) or ""
    place = (diagnostics.table_name if diagnostics else None) or ""
    match cause:
        case pg.UniqueViolation():
            return AlreadyExists(f"Another row holds the same value ({constraint}).", place=place)
        case pg.ForeignKeyViolation():
            return InUse(f"A reference does not hold ({constraint}).", place=place)
        case pg.CheckViolation() | pg.NotNullViolation() | pg.DataError():
            return InvalidInput(f"The database refuses a value ({constraint or cause}).", place=place)
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
