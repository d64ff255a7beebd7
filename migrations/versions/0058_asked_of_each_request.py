"""Queries of each request, planned once."""

from migrations.pieces import run_pieces

revision = "0058"
down_revision = "0057"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
