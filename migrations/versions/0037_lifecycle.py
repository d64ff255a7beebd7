"""Placing tenants, moving them to another cell, and deleting them with a grace period."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("tenant_moves")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
