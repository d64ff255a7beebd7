"""Sign-in of people: second factors, passkeys, links for passwords, and rate limits."""

from migrations.pieces import run_pieces

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
