"""Indexes for searches of the audit log."""

from migrations.pieces import run_pieces

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
