"""Planner statistics for tables whose rows come and go within a day."""

from migrations.pieces import run_pieces

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
