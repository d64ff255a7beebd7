"""What a migration written in SQL is made of."""

from importlib.resources import files
from typing import Any

from alembic import op
from psycopg import sql


def run_pieces(revision: str) -> None:
    """The files of `migrations/sql/<revision>`, in the order of their names."""
    connection = _driver_connection()
    for piece in sorted(files("migrations").joinpath("sql", revision).iterdir(), key=lambda entry: entry.name):
        # The driver's own connection: several statements at once, and no parameter marks to escape.
        connection.execute(piece.read_text(encoding="utf-8"))


def wall_tenants(*tables: str) -> None:
    """Row-level security of tables with a tenant_id: application and worker see the tenant in scope alone.

    Others see nothing but by policies of their own.
    """
    connection = _driver_connection()
    for table in tables:
        for statement in (
            "ALTER TABLE {} ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY tenant_scope ON {} TO admit_app, admit_worker"
            " USING (tenant_id = scope_tenant_id()) WITH CHECK (tenant_id = scope_tenant_id())",
        ):
            connection.execute(sql.SQL(statement).format(sql.Identifier(table)))


def _driver_connection() -> Any:  # noqa: ANN401 -- psycopg's, which SQLAlchemy types as any driver's
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    return connection
