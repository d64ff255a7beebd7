"""How many made-up examples a property is tried with: all of them in a run with the marker `long`, else a part."""

_PART, _LEAST = 8, 8
_is_whole = True


def take_part(*, is_part: bool) -> None:
    """Before any test is imported."""
    global _is_whole
    _is_whole = not is_part


def examples(number: int, *, least: int = _LEAST) -> int:
    return number if _is_whole else max(least, number // _PART)
