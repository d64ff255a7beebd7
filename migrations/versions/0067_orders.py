"""Sort orders of lists."""

from migrations.pieces import run_pieces

revision = "0067"
down_revision = "0065"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
