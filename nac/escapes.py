"""Control characters as text that people can read: they vanish in logs, and PostgreSQL stores no NUL."""

import re

# C0, delete and C1 (Unicode's category Cc).
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def escape_controls(text: str) -> str:
    """`text` with each control character written as OpenSSL does: "admin\\x00"."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02X}", text)
