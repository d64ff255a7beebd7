"""Names of groups can change."""

from migrations.pieces import run_pieces

revision = "0068"
down_revision = "0067"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
