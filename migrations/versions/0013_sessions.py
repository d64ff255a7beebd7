"""Session details beyond counters, ended sessions, and usage by the hour."""

from migrations.pieces import run_pieces

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
