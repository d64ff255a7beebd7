"""Index of a user's live sessions in list order."""

from migrations.pieces import run_pieces

revision = "0073"
down_revision = "0072"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
