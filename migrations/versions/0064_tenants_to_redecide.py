"""A cell that is down causes no work for re-decisions."""

from migrations.pieces import run_pieces

revision = "0064"
down_revision = "0063"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
