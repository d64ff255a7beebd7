"""Templates of MSPs: shared settings of tenants, rolled out in stages."""

from migrations.pieces import run_pieces

revision = "0043"
down_revision = "0042"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
