"""Suspension of MSPs, mandatory single sign-on, and fewer columns in references and platform reads."""

from migrations.pieces import run_pieces

revision = "0054"
down_revision = "0051"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
