"""Links by mail, failed attempts, and data for their upkeep by the worker."""

from migrations.pieces import run_pieces

revision = "0046"
down_revision = "0045"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
