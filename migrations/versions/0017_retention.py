"""Retention of logs: terms, holds, sizes, and exports before deletion."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("retention_settings", "retention_holds", "retention_notices", "log_sizes", "export_jobs")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
