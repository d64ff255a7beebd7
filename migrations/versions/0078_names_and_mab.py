"""Passwords of NASes in MAB requests, and realms to remove from user names."""

from migrations.pieces import run_pieces

revision = "0078"
down_revision = "0077"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
