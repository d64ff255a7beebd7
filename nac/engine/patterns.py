"""Regular expressions by RE2: time linear in the text whatever the pattern, memory bounded (docs/adr/0007)."""

import re
from collections.abc import Callable

# Here and not where it is needed: its binding takes the interpreter's lock when it is first loaded, which never ends in
# a thread of radiusd that has called another instance of the module before.
import re2  # house: allow engine-imports -- no regular expression of the standard library is safe (docs/adr/0007)

MAX_PATTERN = 500
# Bytes for the compiled form and for what it remembers while it matches; one that needs more is refused.
_MAX_MEMORY = 256 * 1024
# An unbounded repetition of nothing but an unbounded repetition, such as (a+)+: it matches what the inner one does, and
# whoever copies it into a program with another engine waits for ever.
_REPEATED_TWICE = re.compile(
    r"\((?:\?:|\?P?<\w+>)?(?:\\.|\[(?:\\.|[^\]\\])*\]|[^()\\\[\]|])(?:[*+]|\{\d+,\})\??\)(?:[*+]|\{\d+,\})"
)


def compile_pattern(pattern: str, *, ignore_case: bool) -> Callable[[str], bool]:
    """A test whether the pattern is found anywhere in a text. Raises ValueError with a sentence."""
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"{len(pattern)} characters; a pattern has at most {MAX_PATTERN}")
    if twice := _REPEATED_TWICE.search(pattern):
        raise ValueError(f"{twice[0]} repeats what is a repetition already; once is enough (a+ for (a+)+)")
    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    options.never_capture = True
    options.case_sensitive = not ignore_case
    try:
        # As bytes: with text, the library would count characters up to the match, which nobody asks for.
        search = re2.compile(pattern.encode(), options).search
    except re2.error as exc:
        raise ValueError(_sentence(exc)) from None

    def test(text: str) -> bool:
        try:
            return search(text.encode()) is not None
        except UnicodeEncodeError:
            # Half of a surrogate pair, which no text of a request has.
            return False

    return test


def _sentence(error: Exception) -> str:
    reason = error.args[0]
    said = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    if said.startswith("pattern too large"):
        return f"takes more than {_MAX_MEMORY // 1024} kB to match; make its repetitions smaller or use one_of"
    if said.startswith(("invalid perl operator", "invalid escape sequence")):
        return f"{said}; there is no look-around and no reference to a group (RE2's syntax)"
    return f"is no regular expression: {said}"
