"""Trials: sign-ups, and their tenants."""

from migrations.pieces import run_pieces

revision = "0042"
down_revision = "0041"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
