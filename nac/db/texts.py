"""What people search for by a part of its name."""

from sqlalchemy import ColumnElement, or_
from sqlalchemy.orm import InstrumentedAttribute

_Text = InstrumentedAttribute[str] | InstrumentedAttribute[str | None]


def has_part(text: str, *columns: _Text) -> ColumnElement[bool]:
    """Whether `text` is within one of them, in upper or lower case."""
    return or_(*(column.icontains(text, autoescape=True) for column in columns))
