"""Re-decisions that people have stopped or that wait for them, and sessions of long ago."""

from migrations.pieces import run_pieces

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
