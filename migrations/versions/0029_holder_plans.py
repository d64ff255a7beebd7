"""One index for the holder of an address, independent of planner statistics."""

from migrations.pieces import run_pieces

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
