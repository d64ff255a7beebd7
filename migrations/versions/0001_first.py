"""The first schema: tenancy, nouns, cells, logs, change feed, row-level security, grants."""

from migrations.pieces import run_pieces

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("the first schema has nothing to go back to: drop the database")
