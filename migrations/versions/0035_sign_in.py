"""How people sign in: second factors, passkeys, links that set a password, and what slows guesses down."""

from migrations.pieces import run_pieces

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
