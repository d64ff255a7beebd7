"""The number of examples in a run: all with the marker `long`, otherwise a part."""

_PART, _LEAST = 8, 8
_is_whole = True


def select_part_run(*, is_part: bool) -> None:
    """Select the run of a part before any test is imported."""
    global _is_whole
    _is_whole = not is_part


def is_whole() -> bool:
    return _is_whole


def examples(number: int, *, least: int = _LEAST) -> int:
    """The number of generated examples of a property."""
    return number if _is_whole else max(least, number // _PART)
