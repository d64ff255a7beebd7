"""One query per second for the worker's queues with work."""

from migrations.pieces import run_pieces

revision = "0074"
down_revision = "0073"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
