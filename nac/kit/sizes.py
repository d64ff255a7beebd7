"""Sizes in readable form; 1 KB is 1,024 bytes."""

SIZE_UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


def format_size(size: int) -> str:
    """Return the size with at least two digits, such as 1.5 GB or 320 MB."""
    fitting = [(name, unit) for name, unit in SIZE_UNITS.items() if size >= unit]
    if not fitting:
        return f"{size} bytes"
    name, unit = fitting[-1]
    value = size / unit
    return f"{value:.1f}".removesuffix(".0") + f" {name}" if value < 10 else f"{value:.0f} {name}"
