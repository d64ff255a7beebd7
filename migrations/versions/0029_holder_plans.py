"""Who holds an address is found by one index, whatever PostgreSQL knows of sessions."""

from migrations.pieces import run_pieces

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
