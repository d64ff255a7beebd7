"""Slow receivers, notes in tens of thousands, and devices that change together."""

from migrations.pieces import run_pieces

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
