"""Indexes of the authentication log for rejects, users and certificate names."""

from migrations.pieces import run_pieces

revision = "0044"
down_revision = "0043"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
