"""Rights of the role for public processes.

The complete list shows the rights that migrations add. Tests of those processes use this role, which proves that its
rights suffice.
"""

import psycopg
import pytest

from tests.postgres import Database

TABLES = {
    "alembic_version": "SELECT",
    "audit_log": "INSERT",
    "authority_intents": "SELECT",
    "certificate_authorities": "SELECT",
    "certificate_settings": "SELECT",
    "certificates": "INSERT SELECT",
    "enrolment_secrets": "SELECT",
    "ocsp_signers": "SELECT",
    "revocation_lists": "SELECT",
    "scep_transactions": "INSERT SELECT",
    "scep_webhooks": "SELECT",
    "tenants": "SELECT",
}
COLUMNS = {
    "certificates": "certificate_der key_sealed public_key_sha256 status",
    "enrolment_secrets": "last_used_at uses",
    "tenants": "created_at",
}
# Functions that run with the rights of their owner. test_row_security_bypasses.py tests their results.
DOORS = {"certificate_statuses(uuid,bytea[])", "enrolment_authorities()"}


def test_public_role_has_exactly_the_listed_rights(database: Database) -> None:
    with psycopg.connect(database.superuser_url) as connection:
        tables = connection.execute(
            "SELECT table_name, string_agg(privilege_type, ' ' ORDER BY privilege_type)"
            " FROM information_schema.role_table_grants WHERE grantee = 'admit_public' GROUP BY 1"
        ).fetchall()
        columns = connection.execute(
            "SELECT table_name, string_agg(column_name, ' ' ORDER BY column_name)"
            " FROM information_schema.column_privileges WHERE grantee = 'admit_public' AND privilege_type = 'UPDATE'"
            " GROUP BY 1"
        ).fetchall()
        doors = connection.execute(
            "SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace"
            " AND p.prosecdef AND p.prorettype <> 'trigger'::regtype"
            " AND has_function_privilege('admit_public', p.oid, 'EXECUTE')"
        ).fetchall()
    assert dict(tables) == TABLES
    assert dict(columns) == COLUMNS
    assert {name for (name,) in doors} == DOORS


@pytest.mark.parametrize(
    "table", ["people", "users", "slots", "sign_ins", "api_tokens", "nases", "policies", "sessions", "auth_log"]
)
def test_public_role_sees_only_enrolment_data(database: Database, table: str) -> None:
    with (
        psycopg.connect(database.public_url) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"),
    ):
        connection.execute(f"SELECT FROM {table}".encode())
