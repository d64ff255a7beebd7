"""Membership in large sets. PostgreSQL allows 65,535 parameters, and an array is one (ADR 0014)."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, any_, cast
from sqlalchemy.dialects.postgresql import ARRAY


def in_array(column: Any, values: Iterable[Any]) -> ColumnElement[bool]:  # noqa: ANN401 -- a mapped column
    """Like `column.in_(values)`."""
    is_among: ColumnElement[bool] = column == any_(cast(list(values), ARRAY(column.type)))
    return is_among
