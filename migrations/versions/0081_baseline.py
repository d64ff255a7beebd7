"""The baseline: the whole schema, from the current files in `migrations/sql`.

The files have the changes of later revisions too. So `migrations/env.py` stamps a new database with the last revision.
The id is that of the last revision before the baseline, because such a database has the same schema.
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
