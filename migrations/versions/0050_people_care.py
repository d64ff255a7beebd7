"""When a member has come in, who answers for a token, and what both need."""

from migrations.pieces import run_pieces

revision = "0050"
down_revision = "0049"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
