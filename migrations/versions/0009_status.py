"""The status of certificates: lists of the revoked, signers of answers, and what is to be made anew."""

from migrations.pieces import run_pieces

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
