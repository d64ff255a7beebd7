"""Which tables of a tenant go into its file. Each is in one of these lists; a test holds new ones to it."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Column, Table

from nac.db.base import Base
from nac.ids import TenantId

CONTENT_TABLES: Final = frozenset(
    {
        *("sites", "nases", "policies", "policy_versions", "pools", "pool_addresses"),
        *("endpoint_groups", "endpoints", "endpoint_group_members", "user_groups", "users", "user_group_members"),
        *("identity_sources", "feeds", "certificate_settings", "redecision_settings", "retention_settings"),
        *("retention_terms", "certificate_authorities", "certificates", "revocation_lists", "status_sources"),
        *("scep_webhooks", "secret_rotations"),
    }
)
# On wish; for whoever reads them, never taken in again.
LOG_TABLES: Final = ("audit_log", "auth_log", "accounting_log", "session_history", "usage_hours", "event_notes")
EXCLUDED_TABLES: Final[Mapping[str, str]] = {
    # Of the cell.
    **dict.fromkeys(("slots", "tenant_moves", "quarantined_records", "replica_changes"), "of the place it lives in"),
    **dict.fromkeys(
        ("sessions", "nas_restarts", "endpoint_sightings", "endpoint_evidence", "endpoint_work", "policy_hits"),
        "what was seen on the network is seen again",
    ),
    **dict.fromkeys(("secret_sightings", "nas_signatures"), "what was seen on the network is seen again"),
    **dict.fromkeys(("external_certificates", "external_statuses"), "asked of its authority again"),
    **dict.fromkeys(("memberships", "membership_tenants", "custom_roles", "api_tokens"), "people are no tenant's"),
    **dict.fromkeys(("sign_in_rules", "sign_ons", "mails", "account_mails"), "people are no tenant's"),
    **dict.fromkeys(("template_tenants", "rollout_tenants"), "its MSP's"),
    "trials": "of the installation that it was tried in",
    "self_tests": "what was true there is tested here",
    "audit_chains": "sealed where it was written",
    **dict.fromkeys(
        ("coa_requests", "redecisions", "redecision_items", "redecision_marks", "redecision_failures"), "under way"
    ),
    **dict.fromkeys(("authority_intents", "revocation_work", "scep_transactions", "ocsp_signers"), "under way"),
    **dict.fromkeys(("feed_marks", "export_jobs", "jobs", "idempotency_keys", "endpoint_expiries"), "under way"),
    **dict.fromkeys(
        ("retention_holds", "retention_notices", "early_deletions", "log_sizes", "expiry_warnings"), "of its logs"
    ),
    "enrolment_secrets": "each is redeemed once, where it was made",
    "purged_tenants": "of those that are gone",
}
# Of these there is nothing without secrets, but for rows that `KEYLESS_ROWS` lets through.
TABLES_NEEDING_KEYS: Final = frozenset(
    {"certificate_authorities", "certificates", "revocation_lists", "scep_webhooks", "feeds", "secret_rotations"}
)
KEYLESS_ROWS: Final[Mapping[str, Callable[[Mapping[str, Any]], bool]]] = {
    "certificate_authorities": lambda row: row["kind"] == "external",
}
SealContext = Callable[[TenantId, UUID | None], str]
# What a sealed value is sealed for: of the tenant's id and the row's.
SEALED_COLUMNS: Final[Mapping[str, SealContext]] = {
    "nases.secret_sealed": lambda _, row: f"nas:{row}",
    "nases.mab_password_sealed": lambda _, row: f"nas-mab-password:{row}",
    "secret_rotations.next_sealed": lambda _, row: f"secret-rotation:{row}",
    "endpoints.psk_sealed": lambda _, row: f"endpoint-psk:{row}",
    "endpoint_groups.psk_sealed": lambda _, row: f"endpoint-group-psk:{row}",
    "users.password_sealed": lambda _, row: f"user:{row}",
    "users.nt_hash_sealed": lambda _, row: f"user-nt-hash:{row}",
    "identity_sources.secret_sealed": lambda _, row: f"identity-source:{row}",
    "certificate_authorities.key_sealed": lambda _, row: f"authority:{row}",
    "certificates.key_sealed": lambda _, row: f"certificate:{row}",
    "scep_webhooks.secret_sealed": lambda tenant, _: f"scep-webhook:{tenant}",
    "feeds.secret_sealed": lambda tenant, row: f"feed:{tenant}:{row}",
    "feeds.former_secret_sealed": lambda tenant, row: f"feed:{tenant}:{row}",
    "feeds.private_sealed": lambda tenant, row: f"feed:{tenant}:{row}:private",
}
# Not sealed in the database, and for nobody to read in a file: what stands for it in a file without secrets.
HASH_COLUMNS: Final[Mapping[str, str]] = {"users.password_hash": ""}
# What a row begins anew with, whatever it was.
RESET_VALUES: Final[Mapping[str, Mapping[str, Any]]] = {
    "certificates": {"secret_id": None},
    "secret_rotations": {"opened_at": None},
    "pool_addresses": {
        "state": "free",
        "cell_id": None,
        "grant_number": 0,
        "mac": None,
        "decided_at": None,
        "until": None,
        "released": False,
    },
    "feeds": {
        "status": "paused",
        "paused_because": "It came from a file.",
        "until": None,
        "mark": 0,
        "mark_at": None,
        "mark_row": 0,
        "mark_rows": 0,
        "attempts": 0,
        "attempted_at": None,
        "failing_since": None,
        "failure": "",
        "told_failing_at": None,
        "delivered_at": None,
        "delivered": 0,
        "at_once": None,
        "lost": 0,
    },
}
# Of a tenant's own row; all else of it is of its place.
TENANT_COLUMNS: Final = (
    *("name", "failure_limit", "failure_window_seconds", "password_failure_limit", "password_failure_window_seconds"),
    *("replay_days", "renewal_keeps_key", "methods", "realms"),
    *("tls_versions", "trusts_external", "status_failure", "nat_session_seconds", "silent_reports", "silent_days"),
)
# The tenant's own row, and what it keeps of its slot.
TENANT_LOCAL_COLUMNS: Final = frozenset(
    {
        *("id", "number", "msp_id", "slug", "status", "suspension_level", "suspended_with_msp", "purge_at"),
        *("default_site_id", "trust_generation", "cui_key", "created_at", "updated_at"),
    }
)


def tenant_tables() -> dict[str, Table]:
    """By name: all that have rows of tenants."""
    return {name: table for name, table in Base.metadata.tables.items() if "tenant_id" in table.columns}


def content_tables() -> list[Table]:
    """In an order in which each row's references are there before it."""
    return [table for table in Base.metadata.sorted_tables if table.name in CONTENT_TABLES]


def stored_columns(table: Table) -> list[Column[Any]]:
    """All but the tenant's id and what PostgreSQL computes."""
    return [column for column in table.columns if column.name != "tenant_id" and column.computed is None]


def sealed_columns(table: Table) -> dict[str, SealContext]:
    return {
        column.name: context
        for column in table.columns
        if (context := SEALED_COLUMNS.get(f"{table.name}.{column.name}")) is not None
    }


def hashed_columns(table: Table) -> list[str]:
    return [column.name for column in table.columns if f"{table.name}.{column.name}" in HASH_COLUMNS]
