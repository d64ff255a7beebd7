"""How long a silent session is waited for, by tenant; sessions by NAS and by IPv6 address through an index."""

from migrations.pieces import run_pieces

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
