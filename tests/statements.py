"""Statements that a piece of code sends, through one engine or, with `Engine` itself, through any engine of the
process.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, event


@contextmanager
def counted(engine: Engine | type[Engine]) -> Iterator[list[str]]:
    statements: list[str] = []

    def note(connection, cursor, statement, parameters, context, executemany):
        statements.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(engine, "before_cursor_execute", note)
