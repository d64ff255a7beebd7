"""Timeout of silent sessions by tenant; indexes of sessions by NAS and IPv6 address."""

from migrations.pieces import run_pieces

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
