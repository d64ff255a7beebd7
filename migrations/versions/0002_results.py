"""Monitor mode of a site; the verdict that would be, and whether it was only monitored, in the auth log."""

from migrations.pieces import run_pieces

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("migrations go one way: restore the database from before")
