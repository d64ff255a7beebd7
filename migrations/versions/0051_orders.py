"""Sort orders for long lists."""

from migrations.pieces import run_pieces

revision = "0051"
down_revision = "0050"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
