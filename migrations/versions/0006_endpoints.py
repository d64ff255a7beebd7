"""Endpoints: discovery, evidence and profiles, groups by rule, posture, passphrases."""

from migrations.pieces import run_pieces

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
