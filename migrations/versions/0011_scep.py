"""SCEP: transactions with their certificates, and webhooks for challenges."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("scep_transactions", "scep_webhooks")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
