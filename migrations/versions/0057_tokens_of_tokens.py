"""Tokens created by a token of a suspended MSP."""

from migrations.pieces import run_pieces

revision = "0057"
down_revision = "0056"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
