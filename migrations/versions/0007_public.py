"""Who names an authority may read of it what is public."""

from migrations.pieces import run_pieces

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
