"""Identity sources: directories and providers that know users."""

from migrations.pieces import run_pieces

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    run_pieces(revision)


def downgrade() -> None:
    raise NotImplementedError("identity sources hold secrets that nothing else holds: restore a backup")
