"""Rename tasks, and variables of SQL functions."""

revision = "0084"
down_revision = "0083"
replaced = {"functions": ["coa_request", "feed", "job", "pool", "secret_rotation", "session", "sign_in"]}


def upgrade() -> None:
    """Replace the functions of the files that `replaced` names."""


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
