"""CSV with a header line, from whatever program: any of the usual delimiters, bounded in every direction."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nac.imports.document import MAX_LINES, ImportDocument, excerpt, unreadable_at

# What spreadsheets take the beginning of a formula for, and cells that would look like a guarded one.
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "'")
_DELIMITERS = ",;\t|"
_MAX_COLUMNS = 256
_MAX_CELL_LENGTH = 20_000
# A row is split before its cells can be counted.
MAX_ROW_LENGTH = 256 * 1024
_QUOTE_REMEDY = "Write cells that have the delimiter in them in quotes."


@dataclass(frozen=True, slots=True)
class TableColumns:
    """Of a table, in lower case. `any_other`: columns that are not known are passed over, and not a mistake."""

    known: Sequence[str]
    needed: Sequence[str]
    prefix: str = ""
    ignores_unknown: bool = False

    def is_known(self, name: str) -> bool:
        return name in self.known or (bool(self.prefix) and name.startswith(self.prefix))


def read_table(text: str, columns: TableColumns, document: ImportDocument) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Line number and cells by column, without blanks around them. Raises Unreadable; a row that has not as many cells
    as the header is among the mistakes of `document`, and so is a wrong header, which ends it."""
    lines = _BoundedLines(text)
    reader = csv.reader(lines, delimiter=_detect_delimiter(text, columns), strict=True)
    header: list[str] = []
    count = 0
    try:
        for cells in reader:
            lines.row_ended()
            number = reader.line_num
            if len(cells) > _MAX_COLUMNS or any(len(cell) > _MAX_CELL_LENGTH for cell in cells):
                raise unreadable_at(
                    number, f"More than {_MAX_COLUMNS} columns, or {_MAX_CELL_LENGTH} characters in one."
                )
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = [cell.strip().lower() for cell in cells]
                if _has_header_mistakes(header, number, columns, document):
                    return
                continue
            if len(cells) != len(header):
                document.wrong(
                    number, "", f"The row has {len(cells)} fields, and the header {len(header)}.", _QUOTE_REMEDY
                )
                continue
            count += 1
            if count > MAX_LINES:
                raise unreadable_at(number, f"More than {MAX_LINES} rows.", "Use several files.")
            yield number, dict(zip(header, (cell.strip() for cell in cells), strict=True))
    except csv.Error as exc:
        raise unreadable_at(reader.line_num, f"This is not CSV: {exc}.") from exc
    if not header:
        _has_header_mistakes([], 1, columns, document)


class _BoundedLines:
    """Of a text, as many for a row as it may have."""

    def __init__(self, text: str) -> None:
        self._lines = io.StringIO(text, newline="")
        self._number = 0
        self._left = MAX_ROW_LENGTH

    def row_ended(self) -> None:
        self._left = MAX_ROW_LENGTH

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._number += 1
            self._left -= len(line)
            if self._left < 0:
                raise unreadable_at(
                    self._number, f"More than {MAX_ROW_LENGTH} characters in a row.", "Is a quotation mark not closed?"
                )
            yield line


def escape_formula(cell: str) -> str:
    """For a spreadsheet, which is not to calculate it."""
    return f"'{cell}" if cell.startswith(_FORMULA_PREFIXES) else cell


def unescape_formula(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA_PREFIXES) else cell


def _has_header_mistakes(header: Sequence[str], number: int, columns: TableColumns, document: ImportDocument) -> bool:
    """Whether something is wrong with it."""
    found = len(document.mistakes)
    for name in columns.needed:
        if name not in header:
            document.wrong(number, name, f"There is no column {name}.", "The first line names the columns.")
    there = ", ".join((*columns.known, *([f"{columns.prefix}<key>"] if columns.prefix else [])))
    for name in dict.fromkeys(header):
        if not columns.ignores_unknown and not columns.is_known(name):
            document.wrong(number, excerpt(name), f"There is no such column: {excerpt(name)}.", f"There are: {there}.")
        elif header.count(name) > 1 and columns.is_known(name):
            document.wrong(number, excerpt(name), f"The column {excerpt(name)} comes twice.", "Leave one of them out.")
    return len(document.mistakes) > found


def _detect_delimiter(text: str, columns: TableColumns) -> str:
    """By which the first line names most of the columns."""
    first = next((line for line in text[:_MAX_CELL_LENGTH].splitlines() if line.strip()), "").lower()

    def named(delimiter: str) -> int:
        return sum(columns.is_known(cell.strip().strip('"')) for cell in first.split(delimiter))

    return max(_DELIMITERS, key=named)
