"""A migration written in SQL: the files of `migrations/sql/<revision>`, in the order of their names."""

from importlib.resources import files

from alembic import op


def run_pieces(revision: str) -> None:
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    for piece in sorted(files("migrations").joinpath("sql", revision).iterdir(), key=lambda entry: entry.name):
        # The driver's own connection: several statements at once, and no parameter marks to escape.
        connection.execute(piece.read_text(encoding="utf-8"))
