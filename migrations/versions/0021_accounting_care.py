"""Partitions made beside shippers at work, restarts of NASes by site and a piece at a time, sessions by more."""

from migrations.pieces import run_pieces

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
