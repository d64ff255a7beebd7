"""Entries of the audit log in chains of hashes, one for each tenant, each MSP and the platform."""

from migrations.pieces import run_pieces

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
