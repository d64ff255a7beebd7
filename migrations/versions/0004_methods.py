"""Methods and TLS versions that a tenant offers; NT hashes of users who may use MS-CHAP."""

from importlib.resources import files

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    pieces = files("migrations").joinpath("sql", revision)
    for piece in sorted(pieces.iterdir(), key=lambda entry: entry.name):
        connection.execute(piece.read_text(encoding="utf-8"))


def downgrade() -> None:
    raise NotImplementedError("which NT hashes there were is not known afterwards: restore the database instead")
