"""Status of certificates: revocation lists, OCSP signers, and renewal of both."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("revocation_lists", "revocation_work", "ocsp_signers")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
