"""Re-decisions that people stopped or must approve, and old sessions."""

from migrations.pieces import run_pieces

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
