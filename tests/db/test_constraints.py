"""Error messages about unique constraints and foreign keys."""

from collections import defaultdict

import psycopg
import pytest
from sqlalchemy import Engine, text

from nac.kit.db import PlatformScope, session_scope
from nac.kit.db.base import Base
from nac.kit.db.error_translation import find_plural, find_reference, list_unique_conflicts
from nac.kit.errors import AdmitError
from tests.postgres import Database

_UNIQUE = """
SELECT i.relname::text, array_agg(a.attname::text ORDER BY a.attnum) FROM pg_index x
JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
JOIN pg_attribute a ON a.attrelid = i.oid
WHERE x.indisunique AND t.relnamespace = 'public'::regnamespace AND NOT t.relispartition
    AND t.relname <> 'alembic_version'
GROUP BY i.relname
"""
# Columns with random values or counters.
_NO_CHANCE = {"id", "public_id", "token_sha256", "code_sha256", "number"}
# Rows that only cells and the worker write, or statements that handle existing rows.
_NOT_ASKED_FOR = {
    "pk_audit_seals",
    "pk_audit_unsealed",
    "pk_decision_counts",
    "pk_dictionaries",
    "pk_early_deletions",
    "pk_endpoint_evidence",
    "pk_endpoint_expiries",
    "pk_endpoint_sightings",
    "pk_expiry_warnings",
    "pk_external_certificates",
    "pk_external_statuses",
    "pk_journal_positions",
    "pk_log_measures",
    "pk_log_sizes",
    "pk_nas_restarts",
    "pk_nas_sightings",
    "pk_nas_signatures",
    "pk_platform_alarms",
    "pk_policy_hits",
    "pk_purged_tenants",
    "pk_redecision_failures",
    "pk_redecision_items",
    "pk_redecision_settings",
    "pk_reject_counts",
    "pk_retention_limits",
    "pk_retention_notices",
    "pk_retention_terms",
    "pk_revocation_lists",
    "pk_rollout_tenants",
    "pk_secret_sightings",
    "pk_sign_in_attempts",
    "pk_spent_challenges",
    "pk_trials",
    "uq_audit_chains_tenant_id_msp_id",
    "uq_audit_seals_entry_id",
    "uq_idempotency_keys_key",
    "uq_mails_key",
    "uq_scep_transactions_tenant_id_certificate_id",
    "uq_sessions_identity",
    "uq_sign_in_failures_subject_id",
    "uq_trials_sign_up_id",
}


def test_each_reachable_constraint_has_a_message_and_a_field(database: Database) -> None:
    with psycopg.connect(database.owner_url) as connection:
        found: dict[str, list[str]] = dict(connection.execute(_UNIQUE).fetchall())
    asked_for = {name for name, columns in found.items() if not _NO_CHANCE & set(columns)} - _NOT_ASKED_FOR
    counted = {"pk_template_versions", "uq_policy_versions_policy_id_number", "uq_certificates_tenant_id_serial"}
    conflicts = list_unique_conflicts()
    assert asked_for | counted == set(conflicts)
    assert found.keys() >= _NOT_ASKED_FOR
    for name, taken in conflicts.items():
        assert taken.place, name
        assert taken.detail.endswith("."), name
        assert taken.remedy.endswith("."), name


_FOREIGN = """
SELECT c.conname::text, c.conrelid::regclass::text, c.confdeltype::text, a.attname::text FROM pg_constraint c
JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[array_upper(c.conkey, 1)]
WHERE c.contype = 'f' AND c.connamespace = 'public'::regnamespace AND c.conparentid = 0
"""


def test_each_foreign_key_has_a_message_and_a_field(database: Database) -> None:
    with psycopg.connect(database.owner_url) as connection:
        found = connection.execute(_FOREIGN).fetchall()
    assert len(found) > 100
    words: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, table, _, column in found:
        named = find_reference(name)
        assert named is not None, name
        assert named.place != table, name
        words[table, column].add(named.what)
    assert [of_column for of_column in words.values() if len(of_column) > 1] == []
    # Rows of these tables block the deletion of a referenced row. Rows of other tables are deleted with it.
    blocking = {table for _, table, deletes, _ in found if deletes in "ar"}
    assert blocking >= {name for name in Base.metadata.tables if find_plural(name) != name.replace("_", " ")}


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            "INSERT INTO msps (slug, name) VALUES ('a', 'A'), ('a', 'B')",
            "slug: An MSP with this slug already exists. Choose another value.",
        ),
        (
            "INSERT INTO tenants (slug, name, msp_id) VALUES ('a', 'A', gen_random_uuid())",
            "msp: The request refers to an MSP that does not exist. Reload the object and try again.",
        ),
        (
            "WITH made AS (INSERT INTO msps (slug, name) VALUES ('a', 'A') RETURNING id)"
            " INSERT INTO tenants (slug, name, msp_id) SELECT 'a', 'A', id FROM made; DELETE FROM msps",
            "The object is still in use by: tenants. First change or delete the objects that use this object.",
        ),
    ],
)
def test_constraint_names_are_never_shown(app_engine: Engine, statement: str, told: str) -> None:
    def change() -> None:
        with session_scope(PlatformScope(), engine=app_engine) as session:
            for each in statement.split(";"):
                session.execute(text(each))

    with pytest.raises(AdmitError) as refused:
        change()
    assert str(refused.value) == told
