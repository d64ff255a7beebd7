"""Rows by the thousand, out of a file or of one request: all of them are stored, or none and every mistake is told."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from nac.errors import AdmitError, InvalidInput, SeveralMistakes
from nac.validation import require_future, require_name

# Of the mistakes of one file or request.
MAX_REPORTED = 200
# A row names up to a hundred groups, and a file has 100,000 rows: beyond so many mistakes each row has one of its own.
_MAX_LINE_MISTAKES = 10_000
# More than twice as many as a tenant may have, with those of one file.
_MAX_NAMED_GROUPS = 15_000

# What becomes of rows of what there is already: a mistake, or it is made what the row says, or left as it is.
OnExisting = Literal["refuse", "update", "keep"]
RowAction = Literal["add", "change", "same", "keep"]
EXISTING_REMEDY = (
    "Say existing: update (--existing update, or --update) to have it changed, or keep to leave it as it is."
)


@dataclass(frozen=True, slots=True)
class InputLine:
    """Of a file, or an item of a list: `number` counts from 1, as people do."""

    number: int
    values: Mapping[str, Any]


class RowMistake(NamedTuple):
    number: int
    field: str
    detail: str
    remedy: str = ""
    # The line before it that says the same; right where that one is left out.
    beside: int = 0

    @property
    def in_line(self) -> str:
        return f"line {self.number}: {self.field}" if self.field else f"line {self.number}" if self.number else ""

    @property
    def in_list(self) -> str:
        """As a path into a body of `items`, which counts from 0."""
        return f"items[{self.number - 1}]" + (f".{self.field}" if self.field else "")

    def sentence(self, place: Callable[["RowMistake"], str] | None = None) -> str:
        """The detail, and which row is meant by it as `place` names rows; None for a line of a file."""
        if not self.beside:
            return self.detail
        meant = RowMistake(self.beside, "", "")
        return f"{self.detail} See {place(meant) if place else meant.in_line}."

    @property
    def message(self) -> str:
        return f"{self.sentence()} {self.remedy}".rstrip()


def select_reported(mistakes: Sequence[RowMistake]) -> list[RowMistake]:
    """As many as are told, by their rows: where there are more, each once before what is wrong with others as well."""
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
    """Some of the rows are not valid; nothing was stored."""

    def __init__(self, mistakes: Iterable[RowMistake], *, place: Callable[[RowMistake], str]) -> None:
        found = list(mistakes)
        shown = [
            InvalidInput(each.sentence(place), place=place(each), remedy=each.remedy) for each in select_reported(found)
        ]
        super().__init__(shown)
        self.count = len(found)


class PlannedRow(NamedTuple):
    """What becomes of one row."""

    number: int
    name: str
    action: RowAction


def require_no_mistakes(mistakes: Sequence[RowMistake], *, place: Callable[[RowMistake], str]) -> None:
    """Raises RowsRefused where there are some."""
    if mistakes:
        raise RowsRefused(mistakes, place=place)


ProgressCallback = Callable[[int], None]


def ignore_progress(done: int) -> None:
    """Nobody waits for how far it is."""


def split_progress(tell: ProgressCallback, rows: int) -> tuple[ProgressCallback, ProgressCallback]:
    """Of rows that are stored first and then noted in the audit log, which takes as long: each step is half of a row,
    so that never more is told than is done."""
    return (lambda stored: tell(stored // 2)), (lambda noted: tell((rows + noted) // 2))


class RowReader:
    """Takes the values of one line after the other, and gathers all that is wrong with them."""

    def __init__(self) -> None:
        self.mistakes: list[RowMistake] = []
        self._lines_wrong: set[tuple[int, str]] = set()
        self._in_lines = 0

    def wrong(self, line: InputLine, field: str, detail: str, remedy: str = "") -> None:
        self.mistakes.append(RowMistake(line.number, field, detail, remedy))

    def add_duplicate(self, number: int, field: str, what: str, *, before: int) -> None:
        detail = f"Another row has {what} already."
        self.mistakes.append(RowMistake(number, field, detail, "Leave one of them out.", before))

    def add_mistake_in_lines(self, lines: Iterable[int], field: str, detail: str, remedy: str) -> None:
        """In each of these lines; where there are very many such mistakes, in those that have none of the field yet."""
        for number in lines:
            if self._in_lines < _MAX_LINE_MISTAKES or (number, field) not in self._lines_wrong:
                self.mistakes.append(RowMistake(number, field, detail, remedy))
                self._lines_wrong.add((number, field))
                self._in_lines += 1

    @staticmethod
    def lines_naming(rows: Iterable[tuple[int, Iterable[str]]]) -> dict[str, list[int]]:
        """By the name of a group each line that names it. Raises InvalidInput."""
        lines: dict[str, list[int]] = {}
        for number, names in rows:
            for name in names:
                lines.setdefault(name, []).append(number)
            if len(lines) > _MAX_NAMED_GROUPS:
                raise InvalidInput(
                    f"The rows name more than {_MAX_NAMED_GROUPS} groups.",
                    place="groups",
                    remedy="Is it the right column? A tenant has far fewer: leave out what is none.",
                )
        return lines

    @contextmanager
    def noted(self, line: InputLine, field: str = "") -> Iterator[None]:
        """A refusal within is a mistake of this field, or of the one that it names."""
        try:
            yield
        except SeveralMistakes as several:
            for each in several.mistakes:
                self.wrong(line, field or each.place, each.detail, each.remedy)
        except AdmitError as exc:
            self.wrong(line, field or exc.place, exc.detail, exc.remedy)

    def take(self, line: InputLine, row: object, field: str, read: Callable[[Any], object], kind: type = str) -> None:
        """Put what `read` makes of the value into `row`; where there is none, what is there stays."""
        value = line.values.get(field)
        if value is None:
            return
        if not isinstance(value, kind):
            self.wrong(line, field, *WRONG_TYPE[kind])
            return
        with self.noted(line, field):
            setattr(row, field, read(value))


# What is wrong, and the remedy.
WRONG_TYPE: Mapping[type, tuple[str, str]] = {
    str: ("It must be text.", "Write it in quotes."),
    bool: ("It must be yes or no.", "Write true or false, without quotes; in CSV yes or no."),
    list: ("It must be a list of names.", 'Write it as ["one", "two"]; in CSV as one;two.'),
    dict: ("It must be an object of texts.", 'Write it as {"key": "text"}.'),
}


def read_groups(names: list[Any]) -> tuple[str, ...]:
    if not all(isinstance(name, str) for name in names):
        detail, remedy = WRONG_TYPE[list]
        raise InvalidInput(detail, remedy=remedy)
    return tuple(sorted({require_name(name) for name in names}))


def parse_expiry(text: str) -> datetime | None:
    """ISO 8601, UTC where it does not say; "" for none."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidInput(f"{text!r} is no date.", remedy="Write it as 2027-01-31 or 2027-01-31T18:00+01:00.") from exc
    return require_future(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
