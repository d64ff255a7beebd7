"""Makes control characters readable: logs hide them, and PostgreSQL cannot store NUL."""

import re

# C0, delete and C1 (Unicode category Cc).
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def escape_controls(text: str) -> str:
    """Return `text` with control characters escaped like in OpenSSL: "admin\x00"."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02X}", text)
