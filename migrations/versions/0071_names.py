"""Feeds may be renamed, groups of a template may not."""

from migrations.pieces import run_pieces

revision = "0071"
down_revision = "0070"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
