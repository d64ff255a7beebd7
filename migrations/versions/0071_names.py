"""Names of feeds can change, names of a template's groups cannot."""

from migrations.pieces import run_pieces

revision = "0071"
down_revision = "0070"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
