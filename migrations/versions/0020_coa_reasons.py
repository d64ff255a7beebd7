"""Reasons, order and retries of requests to NASes; ceiling and failure of re-decisions."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("redecision_failures")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
