"""Reads CSV with a header line and any usual delimiter. Limits all sizes, because files are not trusted."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nac.onboarding.imports.document import MAX_LINES, ImportDocument, excerpt, unreadable_at

# Characters that begin a formula in spreadsheets, and the apostrophe that an export puts before such cells.
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "'")
_DELIMITERS = ",;\t|"
_MAX_COLUMNS = 256
_MAX_CELL_LENGTH = 20_000
# Maximum characters in a row. The csv module splits a row into cells before the cells can be counted.
MAX_ROW_LENGTH = 256 * 1024
_QUOTE_REMEDY = "Put cells that contain the delimiter in quotes."


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns of a format, in lower case."""

    known: Sequence[str]
    needed: Sequence[str]
    prefix: str = ""
    ignores_unknown: bool = False

    def is_known(self, name: str) -> bool:
        return name in self.known or (bool(self.prefix) and name.startswith(self.prefix))


def read_table(text: str, columns: TableColumns, document: ImportDocument) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield, for each row, its line number and its stripped cells by column. Raises Unreadable.

    A row with a wrong number of cells adds a mistake to `document`. A wrong header also adds a mistake, and the
    function then reads no rows.
    """
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
                    number,
                    f"The row has more than {_MAX_COLUMNS} columns, or {_MAX_CELL_LENGTH} characters in one column.",
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
                    number, "", f"The row has {len(cells)} fields, but the header has {len(header)}.", _QUOTE_REMEDY
                )
                continue
            count += 1
            if count > MAX_LINES:
                raise unreadable_at(
                    number, f"The file has more than {MAX_LINES} rows.", "Split the file into several files."
                )
            yield number, dict(zip(header, (cell.strip() for cell in cells), strict=True))
    except csv.Error as exc:
        raise unreadable_at(reader.line_num, f"Invalid CSV: {exc}.") from exc
    if not header:
        _has_header_mistakes([], 1, columns, document)


class _BoundedLines:
    """Iterates over lines for the csv module. Raises Unreadable if a row is too long."""

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
                    self._number,
                    f"The row has more than {MAX_ROW_LENGTH} characters.",
                    "Check for an unclosed quotation mark.",
                )
            yield line


def escape_formula(cell: str) -> str:
    """Return the cell with a leading apostrophe, if spreadsheets would evaluate it."""
    return f"'{cell}" if cell.startswith(_FORMULA_PREFIXES) else cell


def unescape_formula(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA_PREFIXES) else cell


def _has_header_mistakes(header: Sequence[str], number: int, columns: TableColumns, document: ImportDocument) -> bool:
    """Check the header, and add its mistakes to `document`. Returns True if the header has mistakes."""
    found = len(document.mistakes)
    for name in columns.needed:
        if name not in header:
            document.wrong(number, name, f"Column {name} is missing.", "Name the columns in the first line.")
    there = ", ".join((*columns.known, *([f"{columns.prefix}<key>"] if columns.prefix else [])))
    for name in dict.fromkeys(header):
        if not columns.ignores_unknown and not columns.is_known(name):
            document.wrong(number, excerpt(name), f"Unknown column {excerpt(name)}.", f"Use only: {there}.")
        elif header.count(name) > 1 and columns.is_known(name):
            document.wrong(
                number, excerpt(name), f"Duplicate column {excerpt(name)}.", "Remove one of the two columns."
            )
    return len(document.mistakes) > found


def _detect_delimiter(text: str, columns: TableColumns) -> str:
    """Return the delimiter that splits the first line into the most known columns."""
    first = next((line for line in text[:_MAX_CELL_LENGTH].splitlines() if line.strip()), "").lower()

    def named(delimiter: str) -> int:
        return sum(columns.is_known(cell.strip().strip('"')) for cell in first.split(delimiter))

    return max(_DELIMITERS, key=named)
