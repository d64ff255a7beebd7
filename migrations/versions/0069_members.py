"""Index for lookups of members."""

from migrations.pieces import run_pieces

revision = "0069"
down_revision = "0068"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
