"""The outbox of mails."""

from migrations.pieces import run_pieces

revision = "0041"
down_revision = "0040"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
