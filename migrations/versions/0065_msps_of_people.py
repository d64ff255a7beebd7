"""The MSPs of a person."""

from migrations.pieces import run_pieces

revision = "0065"
down_revision = "0064"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
