"""External authorities, the status of their certificates, and sessions to end."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("status_sources", "external_certificates", "external_statuses")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
