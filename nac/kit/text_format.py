"""Readable text for sizes and control characters."""

import re

SIZE_UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


def format_size(size: int) -> str:
    """Return a size with at least two digits, such as 1.5 GB or 320 MB."""
    fitting = [(name, unit) for name, unit in SIZE_UNITS.items() if size >= unit]
    if not fitting:
        return f"{size} bytes"
    name, unit = fitting[-1]
    value = size / unit
    return f"{value:.1f}".removesuffix(".0") + f" {name}" if value < 10 else f"{value:.0f} {name}"


# Control characters: C0, delete and C1 (Unicode category Cc).
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def escape_controls(text: str) -> str:
    """Return `text` with control characters escaped, in the notation of OpenSSL: `\\x00` for a zero byte."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02X}", text)
