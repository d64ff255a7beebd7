"""First sign-in of a member, the maker of a token, and data for both."""

from migrations.pieces import run_pieces

revision = "0050"
down_revision = "0049"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
