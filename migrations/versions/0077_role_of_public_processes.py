"""The processes that strangers reach have a database role of their own, which sees certificates and enrolment only."""

from migrations.pieces import run_pieces

revision = "0077"
down_revision = "0076"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
