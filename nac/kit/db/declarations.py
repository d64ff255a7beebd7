"""Declarations of models about their tables, columns and constraints, besides the schema.

A model declares each where it defines the thing: class attributes of `nac.kit.db.base.Base` for its table, and `info=`
for a column or a constraint. `nac.kit.db.constraints` collects the messages.
"""

from typing import Any, NamedTuple

from sqlalchemy import Table

# Values of `info=`, by class.
Info = dict[Any, Any]


class UniqueConflict(NamedTuple):
    """Message for a violated unique constraint."""

    # Field of the request.
    place: str
    detail: str
    remedy: str


class Reference(NamedTuple):
    """Words for a row that another refers to."""

    # Field of the request.
    place: str
    # With an article.
    what: str


class TableDeclaration(NamedTuple):
    """The class attributes of a model."""

    reference: Reference | None = None
    plural: str = ""


def report_conflict(place: str, detail: str, *, remedy: str = "Reload and try again.") -> Info:
    """Describe a unique constraint that concurrent requests can violate."""
    return {UniqueConflict: UniqueConflict(place, detail, remedy)}


def report_taken(place: str, detail: str) -> Info:
    """Describe a unique constraint on values that people choose."""
    return report_conflict(place, detail, remedy="Choose another one.")


def describe_reference(place: str, what: str) -> Info:
    """Describe a foreign key whose requests use another field or word than the referred table's `reference`."""
    return {Reference: Reference(place, what)}


def describe_table(table: Table) -> TableDeclaration:
    declared: TableDeclaration | None = table.info.get(TableDeclaration)
    return declared or TableDeclaration()
