"""Search by part of a name."""

from sqlalchemy import ColumnElement, or_
from sqlalchemy.orm import InstrumentedAttribute

_TextColumn = InstrumentedAttribute[str] | InstrumentedAttribute[str | None]


def contains_text(text: str, *columns: _TextColumn) -> ColumnElement[bool]:
    """Match `text` within one of the columns, ignoring case."""
    return or_(*(column.icontains(text, autoescape=True) for column in columns))
