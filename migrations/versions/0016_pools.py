"""Pools of addresses, and their leases."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("pools", "pool_addresses")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
