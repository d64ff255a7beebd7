"""The status of certificates: lists of the revoked, signers of answers, and what is to be made anew."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("revocation_lists", "revocation_work", "ocsp_signers")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
