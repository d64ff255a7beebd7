"""Helpers for bulk changes by file or request. Admit either stores all rows, or stores no row and reports all
mistakes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from nac.kit.advice import Advice, NextStep, add_advice
from nac.kit.errors import AdmitError, InvalidInput, SeveralMistakes
from nac.kit.validation import require_future, require_name

# Maximum number of mistakes in the report for a file or request.
MAX_REPORTED = 200
# Above this number of mistakes, RowReader stores only one mistake for each row and field. A file can have 100,000 rows,
# and each row can name a hundred groups.
_MAX_LINE_MISTAKES = 10_000
# Maximum number of different groups in a file. A tenant can have less than half of this number of groups.
_MAX_NAMED_GROUPS = 15_000

# Handling of rows for existing objects: report a mistake, update the object, or keep it unchanged.
OnExisting = Literal["refuse", "update", "keep"]
RowAction = Literal["add", "change", "same", "keep"]
EXISTING_REMEDY = Advice(
    "Update the existing object, or keep the existing object unchanged.",
    *(NextStep(parameters={"existing": action}) for action in ("update", "keep")),
)


@dataclass(frozen=True, slots=True)
class InputLine:
    """A line of a file, or an item of a list. `number` starts at 1."""

    number: int
    values: Mapping[str, Any]


class RowMistake(NamedTuple):
    number: int
    field: str
    detail: str
    remedy: str = ""
    # If the mistake is a duplicate value, the number of the earlier line with this value; otherwise 0.
    beside: int = 0

    @property
    def in_line(self) -> str:
        return f"line {self.number}: {self.field}" if self.field else f"line {self.number}" if self.number else ""

    @property
    def in_list(self) -> str:
        """Path of the row in a request body that has the rows in `items`. The path of the first row is `items[0]`."""
        return f"items[{self.number - 1}]" + (f".{self.field}" if self.field else "")

    def sentence(self, place: Callable[["RowMistake"], str] | None = None) -> str:
        """Return the detail of the mistake. For a duplicate value, add a reference to the earlier row (`beside`).

        `place` formats the position of the earlier row. The default format is the row's line in a file.
        """
        if not self.beside:
            return self.detail
        meant = RowMistake(self.beside, "", "")
        return f"{self.detail} See {place(meant) if place else meant.in_line}."

    @property
    def message(self) -> str:
        return add_advice(self.sentence(), self.remedy)


def select_reported(mistakes: Sequence[RowMistake]) -> list[RowMistake]:
    """Return at most MAX_REPORTED mistakes, ordered by row.

    If there are more mistakes, the result first omits mistakes that an earlier row also has.
    """
    found = sorted(mistakes)
    if len(found) <= MAX_REPORTED:
        return found
    seen: set[tuple[str, str]] = set()
    is_again = []
    for each in found:
        is_again.append((each.field, each.detail) in seen)
        seen.add((each.field, each.detail))
    of_all = sorted(zip(is_again, found, strict=True))
    return sorted(each for _, each in of_all[:MAX_REPORTED])


class RowsRefused(SeveralMistakes):
    """Some rows are invalid. Nothing was stored."""

    def __init__(self, mistakes: Iterable[RowMistake], *, place: Callable[[RowMistake], str]) -> None:
        found = list(mistakes)
        reported = [
            InvalidInput(each.sentence(place), place=place(each), remedy=each.remedy) for each in select_reported(found)
        ]
        super().__init__(reported)
        self.count = len(found)


class PlannedRow(NamedTuple):
    """Row in the preview of a bulk change, with the action that Admit will take."""

    number: int
    name: str
    action: RowAction


def require_no_mistakes(mistakes: Sequence[RowMistake], *, place: Callable[[RowMistake], str]) -> None:
    """Raise RowsRefused if there is a mistake."""
    if mistakes:
        raise RowsRefused(mistakes, place=place)


ProgressCallback = Callable[[int], None]


def ignore_progress(done: int) -> None:
    """Ignore a progress report."""


def split_progress(report: ProgressCallback, rows: int) -> tuple[ProgressCallback, ProgressCallback]:
    """Split the callback `report` into two callbacks: one for the number of stored rows, one for their audit entries.

    To store a row takes about as long as to store its audit entry, so each of them counts as half a row.
    """
    return (lambda stored: report(stored // 2)), (lambda noted: report((rows + noted) // 2))


class RowReader:
    """Reader that parses the values in lines, and collects the mistakes."""

    def __init__(self) -> None:
        self.mistakes: list[RowMistake] = []
        self._lines_wrong: set[tuple[int, str]] = set()
        self._in_lines = 0

    def wrong(self, line: InputLine, field: str, detail: str, remedy: str = "") -> None:
        self.mistakes.append(RowMistake(line.number, field, detail, remedy))

    def add_duplicate(self, number: int, field: str, what: str, *, before: int) -> None:
        detail = f"Another row already has {what}."
        self.mistakes.append(RowMistake(number, field, detail, "Remove one of the two rows.", before))

    def add_mistake_in_lines(self, lines: Iterable[int], field: str, detail: str, remedy: str) -> None:
        """Add a mistake for each of these lines.

        After _MAX_LINE_MISTAKES mistakes, a line that already has a mistake in this field gets no further mistake.
        """
        for number in lines:
            if self._in_lines < _MAX_LINE_MISTAKES or (number, field) not in self._lines_wrong:
                self.mistakes.append(RowMistake(number, field, detail, remedy))
                self._lines_wrong.add((number, field))
                self._in_lines += 1

    @staticmethod
    def lines_naming(rows: Iterable[tuple[int, Iterable[str]]]) -> dict[str, list[int]]:
        """Map each group to the numbers of the lines that name the group. `rows` are pairs (line number, group names).

        Raises InvalidInput if the file names too many groups.
        """
        lines: dict[str, list[int]] = {}
        for number, names in rows:
            for name in names:
                lines.setdefault(name, []).append(number)
            if len(lines) > _MAX_NAMED_GROUPS:
                raise InvalidInput(
                    f"The rows contain more than {_MAX_NAMED_GROUPS} groups.",
                    place="groups",
                    remedy="Check that the column is right, and remove values that are not groups.",
                )
        return lines

    @contextmanager
    def noted(self, line: InputLine, field: str = "") -> Iterator[None]:
        """Convert errors in this block to mistakes in the line. `field` (if set) replaces the field of the errors."""
        try:
            yield
        except SeveralMistakes as several:
            for each in several.mistakes:
                self.wrong(line, field or each.place, each.detail, each.remedy)
        except AdmitError as exc:
            self.wrong(line, field or exc.place, exc.detail, exc.remedy)

    def take(self, line: InputLine, row: object, field: str, read: Callable[[Any], object], kind: type = str) -> None:
        """Parse the field of a line and set it in `row`. A missing value leaves the field unchanged."""
        value = line.values.get(field)
        if value is None:
            return
        if not isinstance(value, kind):
            self.wrong(line, field, *WRONG_TYPE[kind])
            return
        with self.noted(line, field):
            setattr(row, field, read(value))


# Detail and remedy of the mistake if a value does not have the required type.
WRONG_TYPE: Mapping[type, tuple[str, str]] = {
    str: ("The value must be text.", "Write the value in quotes."),
    bool: ("The value must be yes or no.", "Write true or false, without quotes; in CSV yes or no."),
    list: ("The value must be a list of names.", 'Write the list as ["one", "two"]; in CSV as one;two.'),
    dict: ("The value must be an object with text values.", 'Write the object as {"key": "text"}.'),
}


def read_groups(names: list[Any]) -> tuple[str, ...]:
    if not all(isinstance(name, str) for name in names):
        detail, remedy = WRONG_TYPE[list]
        raise InvalidInput(detail, remedy=remedy)
    return tuple(sorted({require_name(name) for name in names}))


def parse_expiry(text: str) -> datetime | None:
    """Parse an ISO 8601 time. The default time zone is UTC. "" means no time."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidInput(
            f"Invalid date {text!r}.", remedy="Use a date such as 2027-01-31 or 2027-01-31T18:00+01:00."
        ) from exc
    return require_future(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
