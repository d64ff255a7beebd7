"""Succession of authorities, server certificates with a start, and expiry warnings."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("authority_intents", "certificate_settings", "expiry_warnings")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
