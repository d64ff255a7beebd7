"""Monitor mode of a site; the verdict that would be, and whether it was only monitored, in the auth log."""

from importlib.resources import files

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    pieces = files("migrations").joinpath("sql", revision)
    for piece in sorted(pieces.iterdir(), key=lambda entry: entry.name):
        # The driver's own connection: several statements at once, and no parameter marks to escape.
        connection.execute(piece.read_text(encoding="utf-8"))


def downgrade() -> None:
    raise NotImplementedError("migrations go one way: restore the database from before")
