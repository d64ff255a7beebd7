"""CSV with a header line, from whatever program: any of the usual delimiters, bounded in every direction."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nac.imports.document import MOST_LINES, Document, refuse, shown

# What spreadsheets take the beginning of a formula for, and cells that would look like a guarded one.
_CALCULATED = ("=", "+", "-", "@", "\t", "\r", "'")
_DELIMITERS = ",;\t|"
_MOST_COLUMNS = 256
_LONGEST_CELL = 20_000
# A row is split before its cells can be counted.
LONGEST_ROW = 256 * 1024
_QUOTED = "Write cells that have the delimiter in them in quotes."


@dataclass(frozen=True, slots=True)
class Columns:
    """Of a table, in lower case. `any_other`: columns that are not known are passed over, and not a mistake."""

    known: Sequence[str]
    needed: Sequence[str]
    prefix: str = ""
    any_other: bool = False

    def is_known(self, name: str) -> bool:
        return name in self.known or (bool(self.prefix) and name.startswith(self.prefix))


def read_table(text: str, columns: Columns, document: Document) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Line number and cells by column, without blanks around them. Raises Unreadable; a row that has not as many cells
    as the header is among the mistakes of `document`, and so is a wrong header, which ends it."""
    lines = _Lines(text)
    reader = csv.reader(lines, delimiter=_delimiter(text, columns), strict=True)
    header: list[str] = []
    count = 0
    try:
        for cells in reader:
            lines.row_ended()
            number = reader.line_num
            if len(cells) > _MOST_COLUMNS or any(len(cell) > _LONGEST_CELL for cell in cells):
                raise refuse(number, f"More than {_MOST_COLUMNS} columns, or {_LONGEST_CELL} characters in one.")
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = [cell.strip().lower() for cell in cells]
                if _check(header, number, columns, document):
                    return
                continue
            if len(cells) != len(header):
                document.wrong(number, "", f"The row has {len(cells)} fields, and the header {len(header)}.", _QUOTED)
                continue
            count += 1
            if count > MOST_LINES:
                raise refuse(number, f"More than {MOST_LINES} rows.", "Use several files.")
            yield number, dict(zip(header, (cell.strip() for cell in cells), strict=True))
    except csv.Error as exc:
        raise refuse(reader.line_num, f"This is not CSV: {exc}.") from exc
    if not header:
        _check([], 1, columns, document)


class _Lines:
    """Of a text, as many for a row as it may have."""

    def __init__(self, text: str) -> None:
        self._lines = io.StringIO(text, newline="")
        self._number = 0
        self._left = LONGEST_ROW

    def row_ended(self) -> None:
        self._left = LONGEST_ROW

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._number += 1
            self._left -= len(line)
            if self._left < 0:
                raise refuse(
                    self._number, f"More than {LONGEST_ROW} characters in a row.", "Is a quotation mark not closed?"
                )
            yield line


def guarded(cell: str) -> str:
    """For a spreadsheet, which is not to calculate it."""
    return f"'{cell}" if cell.startswith(_CALCULATED) else cell


def unguarded(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_CALCULATED) else cell


def _check(header: Sequence[str], number: int, columns: Columns, document: Document) -> bool:
    """Whether something is wrong with it."""
    found = len(document.mistakes)
    for name in columns.needed:
        if name not in header:
            document.wrong(number, name, f"There is no column {name}.", "The first line names the columns.")
    there = ", ".join((*columns.known, *([f"{columns.prefix}<key>"] if columns.prefix else [])))
    for name in dict.fromkeys(header):
        if not columns.any_other and not columns.is_known(name):
            document.wrong(number, shown(name), f"There is no such column: {shown(name)}.", f"There are: {there}.")
        elif header.count(name) > 1 and columns.is_known(name):
            document.wrong(number, shown(name), f"The column {shown(name)} comes twice.", "Leave one of them out.")
    return len(document.mistakes) > found


def _delimiter(text: str, columns: Columns) -> str:
    """By which the first line names most of the columns."""
    first = next((line for line in text[:_LONGEST_CELL].splitlines() if line.strip()), "").lower()

    def named(delimiter: str) -> int:
        return sum(columns.is_known(cell.strip().strip('"')) for cell in first.split(delimiter))

    return max(_DELIMITERS, key=named)
