"""Indexes for large lists, and the tenants of a person."""

from migrations.pieces import run_pieces

revision = "0062"
down_revision = "0060"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
