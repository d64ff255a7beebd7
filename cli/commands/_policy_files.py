"""Files with policies and requests, read with the messages of the policy engine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from nac.kit.errors import InvalidInput, SeveralMistakes


@contextmanager
def report_mistakes(document: str = "") -> Iterator[None]:
    """Report mistakes in a local file in the same form as the API.

    Paths of fields begin with `document`. A mistake in the whole file has the place `FILE`, like the argument.
    """
    from nac.engine import DocumentErrors

    try:
        yield
    except DocumentErrors as exc:
        places = [".".join(filter(None, (document, each.place))) or "FILE" for each in exc.mistakes]
        mistakes = [InvalidInput(each.message, place=at) for each, at in zip(exc.mistakes, places, strict=True)]
        raise (SeveralMistakes(mistakes) if len(mistakes) > 1 else mistakes[0]) from exc


def read_text(file: BinaryIO) -> bytes:
    """Return the content of a file within the size limit of policies. Raises PolicyErrors."""
    from nac.engine import DocumentMistake, PolicyErrors
    from nac.engine.document import MAX_DOCUMENT_BYTES

    text = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(text) > MAX_DOCUMENT_BYTES:
        limit = MAX_DOCUMENT_BYTES // 1024
        raise PolicyErrors([DocumentMistake("", f"larger than the limit of {limit} kB; use groups instead of lists")])
    return text


def read_document(file: BinaryIO | None) -> Any:  # noqa: ANN401 -- any JSON
    """Return the JSON object of a file; None without a file. Raises PolicyErrors."""
    return None if file is None else parse_text(read_text(file))


def parse_text(text: bytes) -> object:
    from nac.engine import DocumentMistake, PolicyErrors, parse_policy_text

    document = parse_policy_text(text)
    if not isinstance(document, dict):
        raise PolicyErrors([DocumentMistake("", "The document must be an object.")])
    return document
