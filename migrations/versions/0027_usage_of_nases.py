"""NAS data in the rows of usage; ended sessions by IPv6 address and prefix."""

from migrations.pieces import run_pieces

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
