"""Operations that stopped between commits continue as requested."""

from migrations.pieces import run_pieces

revision = "0070"
down_revision = "0069"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
