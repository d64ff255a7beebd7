"""The baseline: the whole schema, from the current files in `migrations/sql`.

The files have the changes of later revisions too. Therefore `migrations/env.py` marks a new database with the last
revision. The baseline has the id of the last revision that it replaces, because a database at that revision has the
same schema.
"""

from alembic import op

from migrations.sql_files import create_schema, driver_connection

revision = "0081"
down_revision = None


def upgrade() -> None:
    connection = driver_connection(op.get_bind())
    create_schema(connection)
    connection.execute("SELECT ensure_log_partitions((now() AT TIME ZONE 'UTC')::date - 1, 9)")


def downgrade() -> None:
    raise NotImplementedError("drop the database instead")
