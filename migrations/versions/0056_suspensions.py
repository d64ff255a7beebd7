"""Source of a tenant's suspension: its own people, its MSP or the platform."""

from migrations.pieces import run_pieces

revision = "0056"
down_revision = "0054"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
