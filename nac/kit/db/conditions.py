"""Conditions on columns: membership in large sets, and search by part of a text."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, any_, cast, or_
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import InstrumentedAttribute

_TextColumn = InstrumentedAttribute[str] | InstrumentedAttribute[str | None]


def in_array(column: Any, values: Iterable[Any]) -> ColumnElement[bool]:  # noqa: ANN401 -- a mapped column
    """Like `column.in_(values)`."""
    is_among: ColumnElement[bool] = column == any_(cast(list(values), ARRAY(column.type)))
    return is_among


def contains_text(text: str, *columns: _TextColumn) -> ColumnElement[bool]:
    """Match `text` within one of the columns, ignoring case."""
    return or_(*(column.icontains(text, autoescape=True) for column in columns))
