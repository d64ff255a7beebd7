"""Base classes of all errors. Packages derive their own error classes.

The API derives the error code from the name of the class. The docstring of the class is the title of the error, and
`status` is its HTTP status. The API and the command line show errors to users. The text of an error therefore does not
name commands, pages or paths. If an API operation can carry out a remedy, the remedy is an `Advice`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from nac.kit.advice import list_next_steps

_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


class AdmitError(Exception):
    """Something failed."""

    status = 500
    # Seconds after which an unchanged request can succeed. None if a retry does not help.
    retry_after_seconds: int | None = None

    def __init__(self, detail: str = "", *, place: str = "", remedy: str = "") -> None:
        """Set what is wrong (`detail`), the wrong field, row or file (`place`), and what the user can do (`remedy`)."""
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
        """Extension members of the problem document (RFC 9457 3.2). A member `detail` overrides the error's detail."""
        return {}

    def describe(self, render: Callable[[str], str] = str) -> str:
        """Return place, detail and remedy as one text. `render` converts a detail or remedy that is an `Advice`."""
        where = f"{self.place}: " if self.place else ""
        return where + " ".join(render(part) for part in (self.detail, self.remedy) if part)

    def __str__(self) -> str:
        return self.describe()


class InvalidInput(AdmitError):
    """The input is not valid."""

    status = 422


class SeveralMistakes(InvalidInput):
    """More than one value is not valid."""

    def __init__(self, mistakes: Sequence[AdmitError]) -> None:
        super().__init__("\n  ".join((f"{len(mistakes)} mistakes:", *map(str, mistakes))))
        self.mistakes = tuple(mistakes)
        # Number of all mistakes. A subclass sets a higher number if `mistakes` lists only some of the mistakes.
        self.count = len(self.mistakes)

    def describe(self, render: Callable[[str], str] = str) -> str:
        heading = self.detail.partition("\n")[0]
        return "\n  ".join((heading, *(each.describe(render) for each in self.mistakes)))


def describe_problem(exc: AdmitError) -> dict[str, Any]:
    """Return the members of a problem document (RFC 9457 3), without empty members."""
    problem: dict[str, Any] = {
        "title": exc.title,
        "detail": exc.detail,
        "code": exc.code,
        "place": exc.place,
        "remedy": exc.remedy,
        "next_steps": list_next_steps(exc.remedy),
        **exc.members,
    }
    if isinstance(exc, SeveralMistakes):
        problem |= {
            "detail": f"{exc.count} mistake{'s' if exc.count > 1 else ''}.",
            "mistakes": [describe_problem(each) for each in exc.mistakes],
        }
    return {name: value for name, value in problem.items() if value}


class NotFound(AdmitError):
    """The object does not exist."""

    status = 404


class Conflict(AdmitError):
    """The request conflicts with the current state."""

    status = 409


class Overtaken(Conflict):
    """Another transaction changed the same rows."""


class HeldUp(Overtaken):
    """Another change of the same object is still running."""

    # The request is valid, and the caller can retry it.
    status = 503
    retry_after_seconds = 5


class AlreadyExists(Conflict):
    """An object with this name or key already exists."""


class InUse(Conflict):
    """Another object still refers to this object."""


class NoFreeSlot(Conflict):
    """No cell has a free slot (port pair) for another tenant."""


class CellTaken(Conflict):
    """An agent on another machine serves the cell with this name."""


class TenantHasNoCell(Conflict):
    """The tenant is not assigned to a cell."""


class Forbidden(AdmitError):
    """The request is not allowed."""

    status = 403


class ScopeViolation(Forbidden):
    """A transaction accessed rows outside its scope."""


class Unavailable(AdmitError):
    """A required service does not respond."""

    status = 503


class TookTooLong(Unavailable):
    """A database statement exceeded its time limit."""


class DatabaseUnavailable(Unavailable):
    """The database does not respond."""

    def __init__(self, detail: str = "", *, place: str = "", remedy: str = "", reason: str = "") -> None:
        """Set the driver's message (`reason`). It can name hosts, users and folders, so only logs show it."""
        super().__init__(detail, place=place, remedy=remedy)
        self.reason = reason

    def __str__(self) -> str:
        return f"{super().__str__()} {self.reason}".rstrip()

    def __repr__(self) -> str:
        """Return the text that Celery logs."""
        return f"{type(self).__name__}({self.reason or self.detail!r})"


class DatabaseSilent(DatabaseUnavailable):
    """The database did not respond in time."""

    retry_after_seconds = 5


class ConnectionsInUse(DatabaseUnavailable):
    """All connections to the database are in use."""

    retry_after_seconds = 5


class NotLiveYet(Unavailable):
    """The change is stored, but the tenant's cell has not confirmed it in time."""


class SchemaMismatch(Unavailable):
    """The database does not have the schema that this version needs."""


class SchemaTooNew(SchemaMismatch):
    """The database is newer than this version."""


class SchemaTooOld(SchemaMismatch):
    """The database has not been migrated to this version."""


class MistakeCollector:
    """Collector of the errors of several checks, so that the user gets all errors in one response."""

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
        """Raise the collected error, or SeveralMistakes if there are several. Does nothing if no error was
        collected."""
        if len(self._found) > 1:
            raise SeveralMistakes(self._found)
        if self._found:
            raise self._found[0]
