"""A cell that is away makes no work for those who decide anew."""

from migrations.pieces import run_pieces

revision = "0064"
down_revision = "0063"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
