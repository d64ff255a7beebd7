"""Suspension of MSPs, single sign-on alone, and what references and platform reads still told."""

from migrations.pieces import run_pieces

revision = "0054"
down_revision = "0051"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
