"""Parsing of policies as JSON, and limits that apply to any document."""

import json

from nac.engine.mistakes import DocumentMistake, MistakeReport, PolicyErrors, at_index, at_key

MAX_DOCUMENT_BYTES = 256 * 1024
# Limit of nesting. A valid condition of 10 levels needs only 20 nested objects and lists.
_MAX_CONTAINERS = 64


def parse_policy_text(text: str | bytes) -> object:
    """Parse a policy from JSON. Raises PolicyErrors for invalid JSON, and for an object with a repeated key."""
    if len(text) > MAX_DOCUMENT_BYTES:
        raise PolicyErrors([_too_large_mistake(len(text))])
    repeated: list[str] = []

    def without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
        document = dict(pairs)
        if len(document) != len(pairs):
            keys = [key for key, _ in pairs]
            repeated.extend(sorted({key for key in keys if keys.count(key) > 1}))
        return document

    try:
        document: object = json.loads(text, object_pairs_hook=without_repetition)
    except RecursionError as exc:
        raise PolicyErrors([DocumentMistake("", f"nested deeper than {_MAX_CONTAINERS} levels")]) from exc
    except UnicodeDecodeError as exc:
        raise PolicyErrors([DocumentMistake("", "is not UTF-8 text")]) from exc
    except json.JSONDecodeError as exc:
        raise PolicyErrors(
            [DocumentMistake(f"line {exc.lineno}, column {exc.colno}", f"is not JSON: {exc.msg}")]
        ) from exc
    except ValueError as exc:
        # A number with more digits than Python reads (4,300), the only other error of json.loads.
        raise PolicyErrors([DocumentMistake("", "contains a number with thousands of digits")]) from exc
    if repeated:
        raise PolicyErrors(DocumentMistake("", f"the key {key[:64]!r} occurs twice in one object") for key in repeated)
    return document


def find_unstorable(document: object) -> tuple[DocumentMistake, ...]:
    """Return mistakes in types, size and characters; () if the document can be stored and parsed."""
    report = MistakeReport()
    # Computing the path of each value is slow, so it is done only after a mistake.
    if not _is_surely_storable(document):
        _report_unstorable(document, report)
    if not report:
        size = len(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode())
        if size > MAX_DOCUMENT_BYTES:
            return (_too_large_mistake(size),)
    return report.mistakes


def _is_surely_storable(document: object) -> bool:
    """Whether it is certain that `_report_unstorable` would report no mistake in the document."""
    level, budget = [document], MAX_DOCUMENT_BYTES
    for _ in range(_MAX_CONTAINERS):
        budget -= len(level)
        if budget < 0:
            return False
        below: list[object] = []
        for value in level:
            if isinstance(value, str):
                if not value.isascii() or "\0" in value:
                    return False
            elif isinstance(value, dict):
                if not all(isinstance(key, str) and key.isascii() and "\0" not in key for key in value):
                    return False
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif value is not None and not isinstance(value, int):
                return False
        if not below:
            return True
        level = below
    return False


def _report_unstorable(document: object, report: MistakeReport) -> None:
    stack: list[tuple[object, str, int]] = [(document, "", 1)]
    budget = MAX_DOCUMENT_BYTES
    while stack:
        value, place, depth = stack.pop()
        budget -= 1
        if budget < 0:
            report.add("", f"larger than {MAX_DOCUMENT_BYTES // 1024} kB")
            return
        if depth > _MAX_CONTAINERS:
            report.add("", f"nested deeper than {_MAX_CONTAINERS} levels")
            return
        if isinstance(value, dict):
            for key, child in value.items():
                if not isinstance(key, str):
                    report.add(place, f"key {key!r} is not text")
                    continue
                check_text(key, place, report)
                stack.append((child, at_key(place, key), depth + 1))
        elif isinstance(value, list):
            stack.extend((child, at_index(place, index), depth + 1) for index, child in enumerate(value))
        elif isinstance(value, str):
            check_text(value, place, report)
        elif value is not None and not isinstance(value, int | bool):
            report.add(place, f"must be text, a whole number, true or false, not {type(value).__name__}")


def _too_large_mistake(size: int) -> DocumentMistake:
    limit = MAX_DOCUMENT_BYTES // 1024
    return DocumentMistake("", f"too large: {size} bytes; the limit is {limit} kB. Use groups instead of lists")


def check_text(text: str, place: str, report: MistakeReport) -> bool:
    """Return False after reporting an invalid character in `text`.

    PostgreSQL's jsonb and radiusd accept no NUL, and UTF-8 has no lone surrogates.
    """
    if "\0" in text:
        report.add(place, "contains a NUL character")
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        report.add(place, "contains half of a surrogate pair")
        return False
    return True
