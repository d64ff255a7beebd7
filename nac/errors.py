"""The error tree. A class name is the machine code, its docstring the title, `status` the HTTP status at the edge.

Packages derive their own errors from these; only the edge (CLI, API) renders them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


class AdmitError(Exception):
    """Something went wrong."""

    status = 500
    # When the same may be asked again; None where time changes nothing.
    retry_after_seconds: int | None = None

    def __init__(self, detail: str = "", *, place: str = "", remedy: str = "") -> None:
        """`detail` says what is wrong, `place` where (a field, a row, a file), `remedy` what to do about it."""
        self.detail = detail or self.title
        self.place = place
        self.remedy = remedy
        super().__init__(detail)

    @property
    def code(self) -> str:
        return _WORD_START.sub("-", type(self).__name__).lower()

    @property
    def title(self) -> str:
        return (type(self).__doc__ or "").strip().splitlines()[0]

    @property
    def members(self) -> Mapping[str, Any]:
        """What a problem says of it besides (RFC 9457 3.2); a `detail` among it takes the other's place."""
        return {}

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.detail}{' ' + self.remedy if self.remedy else ''}"


class InvalidInput(AdmitError):
    """The input is not valid."""

    status = 422


class SeveralMistakes(InvalidInput):
    """More than one thing is not valid."""

    def __init__(self, mistakes: Sequence[AdmitError]) -> None:
        super().__init__("\n  ".join((f"{len(mistakes)} mistakes:", *map(str, mistakes))))
        self.mistakes = tuple(mistakes)
        # More than `mistakes` where those were too many to list.
        self.count = len(self.mistakes)


def problem_of(exc: AdmitError) -> dict[str, Any]:
    """What it says, as members of a problem (RFC 9457 3); empty ones are left out."""
    told: dict[str, Any] = {
        "title": exc.title,
        "detail": exc.detail,
        "code": exc.code,
        "place": exc.place,
        "remedy": exc.remedy,
        **exc.members,
    }
    if isinstance(exc, SeveralMistakes):
        told |= {
            "detail": f"{exc.count} mistake{'s' if exc.count > 1 else ''}.",
            "mistakes": [problem_of(each) for each in exc.mistakes],
        }
    return {name: value for name, value in told.items() if value}


class NotFound(AdmitError):
    """There is no such thing."""

    status = 404


class Conflict(AdmitError):
    """This does not go with what is there already."""

    status = 409


class Overtaken(Conflict):
    """Another transaction stood in the way."""


class HeldUp(Overtaken):
    """Something else is changing the same, and has not come to an end yet."""

    # Nothing of what is asked for is wrong: it may be asked for again as it is.
    status = 503
    retry_after_seconds = 5


class AlreadyExists(Conflict):
    """This exists already."""


class InUse(Conflict):
    """Something else still refers to this."""


class NoFreeSlot(Conflict):
    """No cell has a free slot."""


class CellTaken(Conflict):
    """Another machine's agent serves the cell of this name."""


class TenantHasNoCell(Conflict):
    """This tenant holds no slot of any cell."""


class Forbidden(AdmitError):
    """This is not allowed here."""

    status = 403


class ScopeViolation(Forbidden):
    """A transaction reached for rows outside its scope."""


class Unavailable(AdmitError):
    """A part that this needs does not answer."""

    status = 503


class TookTooLong(Unavailable):
    """The database took longer than one statement may."""


class DatabaseUnavailable(Unavailable):
    """The database does not answer."""


class DatabaseSilent(DatabaseUnavailable):
    """The database did not answer in time."""

    retry_after_seconds = 5


class ConnectionsInUse(DatabaseUnavailable):
    """All connections to the database are in use."""

    retry_after_seconds = 5


class NotLiveYet(Unavailable):
    """The change is stored, but its cell has not confirmed it in time."""


class SchemaMismatch(Unavailable):
    """The database does not have the schema that this version needs."""


class SchemaTooNew(SchemaMismatch):
    """The database is newer than this version."""


class SchemaTooOld(SchemaMismatch):
    """The database has not been migrated to this version."""


class Mistakes:
    """Of several checks: each goes on when another refused, so that one answer names them all."""

    def __init__(self) -> None:
        self._found: list[AdmitError] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        try:
            yield
        except SeveralMistakes as several:
            self._found += several.mistakes
        except (InvalidInput, NotFound) as error:
            self._found.append(error)

    def refuse(self) -> None:
        """Raises the one that was found, or SeveralMistakes; nothing where none was."""
        if len(self._found) > 1:
            raise SeveralMistakes(self._found)
        if self._found:
            raise self._found[0]
