"""Results of a benchmark as a markdown table or JSON."""

import json
from collections.abc import Mapping, Sequence

Row = Mapping[str, str | int | float | None]


def markdown(rows: Sequence[Row]) -> str:
    """Return a markdown table. The keys of the first row are the column names; None becomes a dash."""
    names = list(rows[0]) if rows else []
    lines = [names, ["---"] * len(names), *([_cell(row[name]) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def print_rows(rows: Sequence[Row], *, as_json: bool) -> None:
    print(json.dumps(rows, indent=1) if as_json else markdown(rows))


def _cell(value: str | float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
