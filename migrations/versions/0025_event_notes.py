"""Notes of changes of sessions, devices, certificates and alarms, for feeds and listeners."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("event_notes", "endpoint_expiries")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
