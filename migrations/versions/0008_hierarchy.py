"""Authorities that succeed each other, server certificates shown from a day on, warnings before an end."""

from migrations.pieces import run_pieces

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
