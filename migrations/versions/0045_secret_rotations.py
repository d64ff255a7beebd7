"""Rotation of secrets: two valid secrets for a time, and the secret of each NAS."""

from migrations.pieces import run_pieces, wall_tenants

revision = "0045"
down_revision = "0044"


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("secret_rotations", "secret_sightings")


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
