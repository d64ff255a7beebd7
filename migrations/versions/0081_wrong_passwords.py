"""Wrong passwords are limited per user name."""

from migrations.pieces import run_pieces

revision = "0081"
down_revision = "0079"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
