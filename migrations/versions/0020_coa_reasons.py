"""Requests to NASes by reason, in turn and tried again; what a re-decision may disconnect, and where one fails."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("redecision_failures")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
