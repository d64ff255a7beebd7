"""Only roles with a grant can execute functions. Before this revision, all roles could execute nine functions."""

from migrations.sql_files import list_nouns

revision = "0082"
down_revision = "0081"
replaced = {"functions": list_nouns("functions")}


def upgrade() -> None:
    """Execute no statement here: the replacement of the functions (`replaced`) also sets their grants."""


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
