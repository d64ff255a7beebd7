"""Checks of JSON formats, which tenant files need not include."""

from migrations.pieces import run_pieces

revision = "0049"
down_revision = "0048"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
