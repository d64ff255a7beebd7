"""JSON of the shapes that the code reads, which files of tenants need not have."""

from migrations.pieces import run_pieces

revision = "0049"
down_revision = "0048"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
