"""Permissions required to start a job."""

from migrations.pieces import run_pieces

revision = "0063"
down_revision = "0062"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
