"""Self-tests: requests of an own NAS to a tenant's listeners, and the responses."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0040"
down_revision = "0039"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("self_tests")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
