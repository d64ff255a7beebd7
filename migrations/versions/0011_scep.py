"""SCEP: which transaction led to which certificate, and whom a tenant asks about challenges."""

from migrations.pieces import run_pieces

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
