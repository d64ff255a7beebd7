"""Links by mail, attempts that failed, and what the worker needs to look after both."""

from migrations.pieces import run_pieces

revision = "0046"
down_revision = "0045"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
