"""Each job has a Celery message of its own."""

from migrations.pieces import run_pieces

revision = "0082"
down_revision = "0081"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
