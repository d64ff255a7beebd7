"""Mistakes in documents, with their paths. All mistakes of a document are reported together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# Limits the size of the response to a document with many mistakes.
MAX_REPORTED = 200


@dataclass(frozen=True, slots=True)
class DocumentMistake:
    """A mistake at the path `place`, such as "rules[3].when.any[0].value"; "" for the whole document."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place or 'document'}: {self.message}"


def problem_members(what: str, mistakes: Sequence[DocumentMistake]) -> dict[str, object]:
    """Return the members of a problem document (RFC 9457)."""
    count = f"{len(mistakes)} mistakes" if len(mistakes) > 1 else "a mistake"
    rows = [{"place": mistake.place, "detail": mistake.message} for mistake in mistakes]
    return {"detail": f"{what} has {count}.", "mistakes": rows}


class DocumentErrors(Exception):
    """The document has mistakes."""

    def __init__(self, mistakes: Iterable[DocumentMistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(str(mistake) for mistake in self.mistakes))


class PolicyErrors(DocumentErrors):
    """The policy has mistakes. The policy was not stored or used."""


class RequestErrors(DocumentErrors):
    """The simulated request has mistakes."""


class MistakeReport:
    """Collects mistakes in the order of the document."""

    def __init__(self) -> None:
        self._mistakes: list[DocumentMistake] = []
        self._dropped = 0

    def add(self, place: str, message: str) -> None:
        if len(self._mistakes) < MAX_REPORTED:
            self._mistakes.append(DocumentMistake(place, message))
        else:
            self._dropped += 1

    def __bool__(self) -> bool:
        return bool(self._mistakes)

    @property
    def mistakes(self) -> tuple[DocumentMistake, ...]:
        if self._dropped:
            return (*self._mistakes, DocumentMistake("", f"{self._dropped} more mistakes are not listed"))
        return tuple(self._mistakes)


def at_key(place: str, key: str) -> str:
    if not (key.isascii() and key.isidentifier()):
        return f"{place}[{key[:64]!r}]"
    return f"{place}.{key}" if place else key


def at_index(place: str, index: int) -> str:
    return f"{place}[{index}]"
