"""Policies as they were written, acknowledged differences, and how often rules decide."""

from migrations.pieces import run_pieces

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("hit counts cannot be made up again: restore a backup of before")
