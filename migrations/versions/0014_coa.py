"""Requests to NASes about live sessions (RFC 5176), with progress and responses."""

from migrations.pieces import run_pieces

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
