"""Whether NASes exempt from Message-Authenticator send it."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0079"
down_revision = "0078"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("nas_signatures")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
