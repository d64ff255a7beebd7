"""Single sign-on by the provider of an MSP or a tenant."""

from migrations.pieces import run_pieces

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
