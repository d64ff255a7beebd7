"""People who administer, their permissions, and the tokens of programs."""

from migrations.pieces import run_pieces

revision = "0032"
down_revision = "0030"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
