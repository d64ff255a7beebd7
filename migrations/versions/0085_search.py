"""Add indexes and functions for the search across tenants."""

from alembic import op

revision = "0085"
down_revision = "0084"
replaced = {"functions": ["tenant", "endpoint", "user", "site", "session", "certificate", "log"]}


def upgrade() -> None:
    op.execute("CREATE SCHEMA extensions")
    op.execute("CREATE EXTENSION pg_trgm SCHEMA extensions")
    op.execute(
        "CREATE INDEX ix_endpoints_name_trigrams ON endpoints USING gin (name extensions.gin_trgm_ops) "
        "WHERE name <> ''"
    )
    op.execute("CREATE INDEX ix_users_tenant_id_lower_name ON users (tenant_id, lower(name) text_pattern_ops)")
    op.execute("CREATE INDEX ix_nases_tenant_id_lower_name ON nases (tenant_id, lower(name) text_pattern_ops)")
    op.execute(
        "CREATE INDEX ix_nases_tenant_id_lower_identifier ON nases (tenant_id, lower(identifier) text_pattern_ops)"
    )
    op.execute(
        "CREATE INDEX ix_certificates_tenant_id_common_name_prefix "
        "ON certificates (tenant_id, common_name_key text_pattern_ops)"
    )


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
