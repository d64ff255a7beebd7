"""Authorities that succeed each other, server certificates shown from a day on, warnings before an end."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("authority_intents", "certificate_settings", "expiry_warnings")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
