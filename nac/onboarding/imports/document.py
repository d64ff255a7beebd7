"""The parsed content of an import file: lines of endpoints, NASes and users, with mistakes and notes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nac.kit.advice import add_advice
from nac.kit.bulk_rows import InputLine, RowMistake
from nac.kit.errors import InvalidInput

MAX_FILE_BYTES = 16 * 1024 * 1024
# Maximum number of rows in a file. The limit for users is lower (nac.inventory.users.bulk).
MAX_LINES = 100_000
# Maximum number of text lines in a file, including empty lines and comments.
_MAX_TEXT_LINES = 20 * MAX_LINES
# Maximum number of values in a file: cells that are not empty, or JSON lists, objects and members. In memory, a value
# needs several times its length in the file.
MAX_VALUES = 20 * MAX_LINES
# Maximum number of notes in a report. Mistakes do not count.
MAX_NOTES = 1_000
_MAX_EXCERPT_LENGTH = 80


class ImportNote(NamedTuple):
    """A note about a row or value that the import skipped, or that needs manual work, with the reason."""

    line: int
    text: str


class Unreadable(InvalidInput):
    """The file cannot be read in this format."""

    # Line number of the error; 0 if it is unknown.
    line = 0


@dataclass(slots=True)
class ImportDocument:
    endpoints: list[InputLine] = field(default_factory=list)
    nases: list[InputLine] = field(default_factory=list)
    users: list[InputLine] = field(default_factory=list)
    mistakes: list[RowMistake] = field(default_factory=list)
    notes: list[ImportNote] = field(default_factory=list)
    # Number of all notes, including notes beyond MAX_NOTES that are not stored.
    noted: int = 0

    def __len__(self) -> int:
        return len(self.endpoints) + len(self.nases) + len(self.users)

    def note(self, line: int, text: str) -> None:
        self.noted += 1
        if len(self.notes) < MAX_NOTES:
            self.notes.append(ImportNote(line, text))

    def without(self, mistakes: Sequence[RowMistake]) -> "ImportDocument":
        """Return a copy of the document without the lines that have these mistakes. Each mistake becomes a note.

        Mistakes without a line stay mistakes.
        """
        gone = {each.number for each in mistakes if each.number}
        left = ImportDocument(mistakes=[each for each in mistakes if not each.number])
        for name in ("endpoints", "nases", "users"):
            setattr(left, name, [line for line in getattr(self, name) if line.number not in gone])
        for each in mistakes:
            if each.number:
                where = f"was skipped: {each.field}:" if each.field else "was skipped:"
                left.note(each.number, add_advice(where, each.message))
        for note in self.notes:
            left.note(*note)
        left.noted += self.noted - len(self.notes)
        return left

    def wrong(self, line: int, field: str, detail: str, remedy: str = "") -> None:
        if len(self.mistakes) >= MAX_LINES:
            raise unreadable_at(
                line, f"The file has more than {MAX_LINES} mistakes.", "Check that the file has the selected format."
            )
        self.mistakes.append(RowMistake(line, field, detail, remedy))


def unreadable_at(line: int, detail: str, remedy: str = "") -> Unreadable:
    """Return an Unreadable error for the caller to raise.

    Use this function for a mistake after which a parser cannot read the next lines reliably.
    """
    refused = Unreadable(detail, place=f"line {line}" if line else "file", remedy=remedy)
    refused.line = line
    return refused


def too_many_values_at(line: int) -> Unreadable:
    """Return the error for a file with more than MAX_VALUES values, for the caller to raise."""
    return unreadable_at(line, f"The file has more than {MAX_VALUES} values.", "Split the file into several files.")


def decode_text(content: bytes, document: ImportDocument) -> str:
    """Decode a file from UTF-16 (with byte order mark) or UTF-8, otherwise from Windows-1252. Raises Unreadable."""
    if len(content) > MAX_FILE_BYTES:
        raise unreadable_at(0, f"The file has more than {MAX_FILE_BYTES} bytes.", "Split the file into several files.")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = _decode_as(content, "utf-16")
    elif b"\0" in content:
        raise unreadable_at(0, "The file is not text.", "Save the file as UTF-8.")
    else:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            line = content.count(b"\n", 0, exc.start) + 1
            text = _decode_as(content, "cp1252")
            document.note(line, "is not UTF-8: the file was read as Windows-1252; check accented letters")
    if text.count("\n") + text.count("\r") > _MAX_TEXT_LINES:
        raise unreadable_at(0, f"The file has more than {_MAX_TEXT_LINES} lines.", "Split the file into several files.")
    if "\0" in text:
        raise unreadable_at(
            text.count("\n", 0, text.index("\0")) + 1, "The file contains NUL.", "Save the file as UTF-8 text."
        )
    return text


def _decode_as(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as exc:
        raise unreadable_at(0, "The file is not valid text.", "Save the file as UTF-8.") from exc


def excerpt(text: str) -> str:
    """Return a short printable form of a text from a file, for messages."""
    return repr(text[:_MAX_EXCERPT_LENGTH])[1:-1] + ("..." if len(text) > _MAX_EXCERPT_LENGTH else "")
