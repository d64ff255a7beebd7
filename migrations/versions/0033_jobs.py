"""Jobs on request: queue, progress and result."""

from migrations.pieces import run_pieces

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
