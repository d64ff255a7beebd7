"""Regular expressions with RE2: linear time and bounded memory (docs/adr/0007)."""

import re
from collections.abc import Callable

# Import re2 when this module loads. If a thread of radiusd has called another instance of rlm_python3 and then imports
# re2 for the first time, the thread deadlocks on the GIL.
import re2  # house: allow engine-imports -- the standard library's regular expressions are not safe (docs/adr/0007)

MAX_PATTERN_LENGTH = 500
# Bytes for the compiled pattern and its cache; larger patterns are rejected.
_MAX_MEMORY = 256 * 1024
# Nested unbounded repetition, such as (a+)+. (a+)+ matches the same texts as a+, but takes exponential time in
# backtracking engines.
_REPEATED_TWICE = re.compile(
    r"\((?:\?:|\?P?<\w+>)?(?:\\.|\[(?:\\.|[^\]\\])*\]|[^()\\\[\]|])(?:[*+]|\{\d+,\})\??\)(?:[*+]|\{\d+,\})"
)


def compile_pattern(pattern: str, *, ignore_case: bool) -> Callable[[str], bool]:
    """Return a function that tests whether the pattern occurs in a text. Raises ValueError with a message for the
    author of the policy."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ValueError(f"too long: {len(pattern)} characters; the limit is {MAX_PATTERN_LENGTH}")
    if twice := _REPEATED_TWICE.search(pattern):
        raise ValueError(f"{twice[0]} repeats a repetition; repeat once (a+ instead of (a+)+)")
    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    options.never_capture = True
    options.case_sensitive = not ignore_case
    try:
        # Search bytes, because with text the library also counts the characters before the match.
        search = re2.compile(pattern.encode(), options).search
    except re2.error as exc:
        raise ValueError(_describe_error(exc)) from None

    def test(text: str) -> bool:
        try:
            return search(text.encode()) is not None
        except UnicodeEncodeError:
            # The text has half of a surrogate pair. Text in requests never has one.
            return False

    return test


def _describe_error(error: Exception) -> str:
    reason = error.args[0]
    text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    if text.startswith("pattern too large"):
        return f"needs more than {_MAX_MEMORY // 1024} kB; use smaller repetitions or one_of"
    if text.startswith(("invalid perl operator", "invalid escape sequence")):
        return f"{text}; look-around and group references are not supported (RE2 syntax)"
    return f"not a regular expression: {text}"
