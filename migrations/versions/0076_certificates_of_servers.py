"""Index for names of RADIUS servers among many certificates."""

from migrations.pieces import run_pieces

revision = "0076"
down_revision = "0075"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
