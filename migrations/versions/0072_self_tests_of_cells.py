"""Cells can read when their tenants are tested."""

from migrations.pieces import run_pieces

revision = "0072"
down_revision = "0071"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
