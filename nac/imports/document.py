"""What a file holds, whatever its form: lines of endpoints, NASes and users, and what of it cannot be taken."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nac.bulk_rows import InputLine, RowMistake
from nac.errors import InvalidInput

MAX_FILE_BYTES = 16 * 1024 * 1024
# Of all nouns together; of users fewer are taken (nac.users.bulk).
MAX_LINES = 100_000
# Empty ones and comments as well.
_MAX_TEXT_LINES = 20 * MAX_LINES
# Cells that are not empty; lists, objects and what is in them: each takes many times its characters.
MAX_VALUES = 20 * MAX_LINES
# Of what is told of a file beside its mistakes.
MAX_NOTES = 1_000
_MAX_EXCERPT_LENGTH = 80


class ImportNote(NamedTuple):
    """What was left out or has to be done by hand, and why."""

    line: int
    text: str


class Unreadable(InvalidInput):
    """The file cannot be read as what it is said to be."""

    # 0 where no line can be named.
    line = 0


@dataclass(slots=True)
class ImportDocument:
    endpoints: list[InputLine] = field(default_factory=list)
    nases: list[InputLine] = field(default_factory=list)
    users: list[InputLine] = field(default_factory=list)
    mistakes: list[RowMistake] = field(default_factory=list)
    notes: list[ImportNote] = field(default_factory=list)
    # Of all notes, those beyond MOST_NOTES as well.
    noted: int = 0

    def __len__(self) -> int:
        return len(self.endpoints) + len(self.nases) + len(self.users)

    def note(self, line: int, text: str) -> None:
        self.noted += 1
        if len(self.notes) < MAX_NOTES:
            self.notes.append(ImportNote(line, text))

    def without(self, mistakes: Sequence[RowMistake]) -> "ImportDocument":
        """But for the lines of these mistakes, which become notes; a mistake of no line stays one."""
        gone = {each.number for each in mistakes if each.number}
        left = ImportDocument(mistakes=[each for each in mistakes if not each.number])
        for name in ("endpoints", "nases", "users"):
            setattr(left, name, [line for line in getattr(self, name) if line.number not in gone])
        for each in mistakes:
            if each.number:
                told = f"{each.field}: {each.message}" if each.field else each.message
                left.note(each.number, f"is left out: {told}")
        for note in self.notes:
            left.note(*note)
        left.noted += self.noted - len(self.notes)
        return left

    def wrong(self, line: int, field: str, detail: str, remedy: str = "") -> None:
        if len(self.mistakes) >= MAX_LINES:
            raise unreadable_at(line, f"More than {MAX_LINES} mistakes.", "Is it of this format?")
        self.mistakes.append(RowMistake(line, field, detail, remedy))


def unreadable_at(line: int, detail: str, remedy: str = "") -> Unreadable:
    """To be raised: nothing behind this line can be trusted to mean what it seems to."""
    refused = Unreadable(detail, place=f"line {line}" if line else "file", remedy=remedy)
    refused.line = line
    return refused


def too_many_values_at(line: int) -> Unreadable:
    """To be raised."""
    return unreadable_at(line, f"More than {MAX_VALUES} values in the file.", "Use several files.")


def decode_text(content: bytes, document: ImportDocument) -> str:
    """UTF-8 or UTF-16 with a mark, UTF-8 without one, else as Windows of the west writes. Raises Unreadable."""
    if len(content) > MAX_FILE_BYTES:
        raise unreadable_at(0, f"The file has more than {MAX_FILE_BYTES} bytes.", "Use several files.")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = _decode_as(content, "utf-16")
    elif b"\0" in content:
        raise unreadable_at(0, "The file is no text.", "Save it as UTF-8.")
    else:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            line = content.count(b"\n", 0, exc.start) + 1
            text = _decode_as(content, "cp1252")
            document.note(line, "is not UTF-8: the file was read as Windows-1252; look at its umlauts and accents")
    if text.count("\n") + text.count("\r") > _MAX_TEXT_LINES:
        raise unreadable_at(0, f"The file has more than {_MAX_TEXT_LINES} lines.", "Use several files.")
    if "\0" in text:
        raise unreadable_at(
            text.count("\n", 0, text.index("\0")) + 1, "There is a NUL in it.", "Save it as UTF-8 text."
        )
    return text


def _decode_as(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as exc:
        raise unreadable_at(0, "The file is no text that can be read.", "Save it as UTF-8.") from exc


def excerpt(text: str) -> str:
    """Of a file, for a sentence: short, and printable."""
    return repr(text[:_MAX_EXCERPT_LENGTH])[1:-1] + ("..." if len(text) > _MAX_EXCERPT_LENGTH else "")
