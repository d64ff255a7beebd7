"""What the authentication log is searched by: refusals, users and names of certificates."""

from migrations.pieces import run_pieces

revision = "0044"
down_revision = "0043"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
