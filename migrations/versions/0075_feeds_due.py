"""Which feeds are due is asked of those alone for which something may wait."""

from migrations.pieces import run_pieces

revision = "0075"
down_revision = "0074"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
