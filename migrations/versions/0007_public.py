"""Public data of an authority, readable by anyone who names it."""

from migrations.pieces import run_pieces

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
