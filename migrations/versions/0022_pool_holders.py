"""One place for the holder of a pool address; addresses that their last device does not get back."""

from migrations.pieces import run_pieces

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
