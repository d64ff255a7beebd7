"""Database role of the public processes, which reads only certificates and enrolment."""

from migrations.pieces import run_pieces

revision = "0077"
down_revision = "0076"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
