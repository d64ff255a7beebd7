"""What the planner expects of tables whose rows come and go with a tenant's day."""

from migrations.pieces import run_pieces

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
