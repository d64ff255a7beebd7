"""Methods and TLS versions that a tenant offers; NT hashes of users who may use MS-CHAP."""

from migrations.pieces import run_pieces

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("which NT hashes there were is not known afterwards: restore the database instead")
