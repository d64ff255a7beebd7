"""Partitions created beside running shippers, restarts of NASes by site and in batches, more session indexes."""

from migrations.pieces import run_pieces

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
