"""Endpoints: discovery, evidence and profiles, groups by rule, posture, passphrases."""

from importlib.resources import files

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    pieces = files("migrations").joinpath("sql", revision)
    for piece in sorted(pieces.iterdir(), key=lambda entry: entry.name):
        # The driver's own connection: several statements at once, and no parameter marks to escape.
        connection.execute(piece.read_text(encoding="utf-8"))


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
