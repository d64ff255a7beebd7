"""Self-tests: a NAS of ours asks a tenant's listeners, and what they answered."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0040"
down_revision = "0039"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("self_tests")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
