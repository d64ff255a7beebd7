"""Certificates of a tenant file can be imported in any order."""

from migrations.pieces import run_pieces

revision = "0060"
down_revision = "0058"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
