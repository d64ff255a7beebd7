"""Feeds: what waits is found by its table, and has a bound; addresses are sealed; what is lost is counted in full."""

from migrations.pieces import run_pieces

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
