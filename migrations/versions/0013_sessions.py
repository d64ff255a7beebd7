"""What sessions tell beyond their counters, those that ended long ago, and usage by the hour."""

from migrations.pieces import run_pieces

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
