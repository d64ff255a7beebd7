"""What died between its commits is gone on with as it was asked for."""

from migrations.pieces import run_pieces

revision = "0070"
down_revision = "0069"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
