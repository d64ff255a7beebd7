"""Roll-outs stop when their job ends, and are rolled back if required; data that moves with a tenant."""

from migrations.pieces import run_pieces

revision = "0048"
down_revision = "0046"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
