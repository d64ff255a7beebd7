"""Feeds: waiting events by table, with a limit; sealed addresses; full counts of lost events."""

from migrations.pieces import run_pieces

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
