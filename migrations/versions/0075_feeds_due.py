"""Due feeds are queried only among those with waiting events."""

from migrations.pieces import run_pieces

revision = "0075"
down_revision = "0074"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
