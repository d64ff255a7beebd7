"""Shorter retention is announced and takes effect a week later; a day is deleted once an export has its rows."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("retention_terms", "early_deletions")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
