"""Policies as they were written, acknowledged differences, and how often rules decide."""

from importlib.resources import files

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    pieces = files("migrations").joinpath("sql", revision)
    for piece in sorted(pieces.iterdir(), key=lambda entry: entry.name):
        # The driver's own connection: several statements at once, and no parameter marks to escape.
        connection.execute(piece.read_text(encoding="utf-8"))


def downgrade() -> None:
    raise NotImplementedError("hit counts cannot be made up again: restore a backup of before")
