"""Messages for violated constraints. A violation occurs if concurrent requests pass their checks and then conflict.

Models declare the messages (`nac.kit.db.declarations`). `nac.kit.db.error_translation.report_missing_at` overrides the
field name in a message.
"""

from sqlalchemy import Constraint, Index

from nac.kit.db.base import Base
from nac.kit.db.declarations import Reference, UniqueConflict, describe_table


def list_unique_conflicts() -> dict[str, UniqueConflict]:
    """Return the messages of constraints that requests can violate, by the constraint's name."""
    constraints: list[Constraint | Index] = []
    for table in Base.metadata.tables.values():
        constraints += [*table.constraints, *table.indexes]
    return {str(each.name): each.info[UniqueConflict] for each in constraints if UniqueConflict in each.info}


def find_reference(constraint: str) -> Reference | None:
    """Return the words for the row that a foreign key refers to, or None."""
    for table in Base.metadata.tables.values():
        for key in table.foreign_key_constraints:
            if key.name == constraint:
                own: Reference | None = key.info.get(Reference) or key.elements[0].info.get(Reference)
                return own or describe_table(key.referred_table).reference
    return None


def find_plural(table: str) -> str:
    """Return the plural noun for the rows of a table, for messages."""
    model = Base.metadata.tables.get(table)
    return (model is not None and describe_table(model).plural) or table.replace("_", " ")
