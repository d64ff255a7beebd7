"""Only roles with a grant execute functions. Before, nine functions were open to all roles."""

from migrations.sql_files import list_nouns

revision = "0082"
down_revision = "0081"
replaced = {"functions": list_nouns("functions")}


def upgrade() -> None:
    """The files suffice."""


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
