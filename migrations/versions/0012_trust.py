"""Authorities that tenants bring along, what those say of their certificates, and sessions to be ended."""

from migrations.pieces import run_pieces

revision = "0012"
down_revision = "0009"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
