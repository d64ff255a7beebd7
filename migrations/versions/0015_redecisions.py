"""Re-decisions of live sessions after a change: causes, results and settings."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("redecision_settings", "redecision_marks", "redecisions", "redecision_items")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
