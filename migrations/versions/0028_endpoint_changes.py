"""One pass of change notes for many devices in one statement."""

from migrations.pieces import run_pieces

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
