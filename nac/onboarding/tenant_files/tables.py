"""Lists the tables of a tenant file. Each table of a tenant must be in one of the lists; a test enforces it."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Column, Table

from nac.core.access.permissions import Permission
from nac.kit.db.base import Base
from nac.kit.ids import TenantId
from nac.logs.feeds.event_sources import PERMISSION_BY_KIND

CONTENT_TABLES: Final = frozenset(
    {
        *("sites", "nases", "policies", "policy_versions", "pools", "pool_addresses"),
        *("endpoint_groups", "endpoints", "endpoint_group_members", "user_groups", "users", "user_group_members"),
        *("identity_sources", "feeds", "certificate_settings", "redecision_settings", "retention_settings"),
        *("retention_terms", "certificate_authorities", "certificates", "revocation_lists", "status_sources"),
        *("scep_webhooks", "secret_rotations"),
    }
)
# Optional. Never imported.
LOG_TABLES: Final = ("audit_log", "auth_log", "accounting_log", "session_history", "usage_hours", "event_notes")
EXCLUDED_TABLES: Final[Mapping[str, str]] = {
    # Belong to the cell.
    **dict.fromkeys(("slots", "tenant_moves", "quarantined_records", "replica_changes"), "belongs to its cell"),
    **dict.fromkeys(
        ("sessions", "nas_restarts", "endpoint_sightings", "endpoint_evidence", "endpoint_work", "policy_hits"),
        "observed again on the network",
    ),
    **dict.fromkeys(("secret_sightings", "nas_signatures"), "observed again on the network"),
    **dict.fromkeys(("external_certificates", "external_statuses"), "fetched again from its authority"),
    **dict.fromkeys(
        ("memberships", "membership_tenants", "custom_roles", "api_tokens"), "people do not belong to a tenant"
    ),
    **dict.fromkeys(("sign_in_rules", "sign_ons", "mails", "account_mails"), "people do not belong to a tenant"),
    **dict.fromkeys(("template_tenants", "rollout_tenants"), "belongs to the MSP"),
    "trials": "belongs to the original installation",
    "self_tests": "results of the original installation",
    "audit_chains": "sealed where it was written",
    **dict.fromkeys(
        ("coa_requests", "redecisions", "redecision_items", "redecision_marks", "redecision_failures"), "in progress"
    ),
    **dict.fromkeys(("authority_intents", "revocation_work", "scep_transactions", "ocsp_signers"), "in progress"),
    **dict.fromkeys(("feed_marks", "export_jobs", "jobs", "idempotency_keys", "endpoint_expiries"), "in progress"),
    **dict.fromkeys(
        ("retention_holds", "retention_notices", "early_deletions", "log_sizes", "expiry_warnings"),
        "belongs to the logs",
    ),
    "enrolment_secrets": "redeemable once, where it was created",
    "purged_tenants": "only of deleted tenants",
}
# Omitted from files without secrets, except rows that `KEYLESS_ROWS` selects.
TABLES_NEEDING_KEYS: Final = frozenset(
    {"certificate_authorities", "certificates", "revocation_lists", "scep_webhooks", "feeds", "secret_rotations"}
)
KEYLESS_ROWS: Final[Mapping[str, Callable[[Mapping[str, Any]], bool]]] = {
    "certificate_authorities": lambda row: row["kind"] == "external",
}
SealContext = Callable[[TenantId, UUID | None], str]
# Returns the sealing context from the tenant's and the row's id.
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
# Unsealed in the database, but encrypted in a file. The value replaces them in a file without secrets.
HASH_COLUMNS: Final[Mapping[str, str]] = {"users.password_hash": ""}
# Values that imported rows always start with.
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
        "paused_because": "Imported from a file.",
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
# Exported columns of the tenant's row. The others belong to the installation.
TENANT_COLUMNS: Final = (
    *("name", "failure_limit", "failure_window_seconds", "password_failure_limit", "password_failure_window_seconds"),
    *("replay_days", "renewal_keeps_key", "methods", "realms"),
    *("tls_versions", "trusts_external", "status_failure", "nat_session_seconds", "silent_reports", "silent_days"),
)
# Columns of the tenant's row that belong to the installation.
TENANT_LOCAL_COLUMNS: Final = frozenset(
    {
        *("id", "number", "msp_id", "slug", "status", "suspension_level", "suspended_with_msp", "purge_at"),
        *("default_site_id", "trust_generation", "cui_key", "created_at", "updated_at"),
    }
)
P = Permission


class TablePermissions(NamedTuple):
    read: P
    make: tuple[P, ...]


_AUTHORITIES = TablePermissions(P.CERTIFICATE_READ, (P.AUTHORITY_MANAGE,))
_POLICIES = TablePermissions(P.POLICY_READ, (P.POLICY_MANAGE, P.POLICY_PUBLISH))
_ENDPOINTS = TablePermissions(P.ENDPOINT_READ, (P.ENDPOINT_MANAGE,))
_USERS = TablePermissions(P.USER_READ, (P.USER_MANAGE,))
_RETENTION = TablePermissions(P.RETENTION_READ, (P.RETENTION_MANAGE,))
# What reading or creating the parts one by one requires, by table of CONTENT_TABLES.
CONTENT_PERMISSIONS: Final[Mapping[str, TablePermissions]] = {
    # A site's policy, fallback and monitor mode decide which rules apply.
    "sites": TablePermissions(P.SITE_READ, (P.SITE_MANAGE, P.POLICY_PUBLISH)),
    "nases": TablePermissions(P.NAS_READ, (P.NAS_MANAGE,)),
    "secret_rotations": TablePermissions(P.NAS_READ, (P.SECRET_ROTATE,)),
    **dict.fromkeys(("policies", "policy_versions"), _POLICIES),
    **dict.fromkeys(("pools", "pool_addresses"), TablePermissions(P.POOL_READ, (P.POOL_MANAGE,))),
    **dict.fromkeys(("endpoint_groups", "endpoints", "endpoint_group_members"), _ENDPOINTS),
    **dict.fromkeys(("user_groups", "users", "user_group_members"), _USERS),
    "identity_sources": TablePermissions(P.SOURCE_READ, (P.SOURCE_MANAGE,)),
    # A feed sends data that these permissions read.
    "feeds": TablePermissions(P.FEED_READ, (P.FEED_MANAGE, *PERMISSION_BY_KIND.values())),
    "redecision_settings": TablePermissions(P.REDECISION_READ, (P.REDECISION_MANAGE,)),
    **dict.fromkeys(("retention_settings", "retention_terms"), _RETENTION),
    **dict.fromkeys(("certificate_settings", "certificate_authorities", "revocation_lists"), _AUTHORITIES),
    **dict.fromkeys(("status_sources", "scep_webhooks"), _AUTHORITIES),
    "certificates": TablePermissions(P.CERTIFICATE_READ, (P.CERTIFICATE_ISSUE,)),
}
# By table of LOG_TABLES.
LOG_PERMISSIONS: Final[Mapping[str, P]] = {
    "audit_log": P.AUDIT_READ,
    **dict.fromkeys(("auth_log", "accounting_log", "event_notes"), P.LOG_READ),
    "session_history": P.SESSION_READ,
    "usage_hours": P.USAGE_READ,
}
# Secrets include RADIUS secrets, passwords and the keys of authorities.
_SECRET_PERMISSIONS: Final = frozenset({P.SECRET_REVEAL, P.AUTHORITY_MANAGE})
IMPORT_PERMISSIONS: Final = frozenset({P.TENANT_CREATE, P.TENANT_MANAGE}).union(
    *(each.make for each in CONTENT_PERMISSIONS.values())
)


def tenant_tables() -> dict[str, Table]:
    """Return all tables with rows of tenants, by name."""
    return {name: table for name, table in Base.metadata.tables.items() if "tenant_id" in table.columns}


def content_tables() -> list[Table]:
    """Return tables in an order in which references always precede the rows that use them."""
    return [table for table in Base.metadata.sorted_tables if table.name in CONTENT_TABLES]


def stored_columns(table: Table) -> list[Column[Any]]:
    """Return all columns except tenant_id and generated ones."""
    return [column for column in table.columns if column.name != "tenant_id" and column.computed is None]


def sealed_columns(table: Table) -> dict[str, SealContext]:
    return {
        column.name: context
        for column in table.columns
        if (context := SEALED_COLUMNS.get(f"{table.name}.{column.name}")) is not None
    }


def hashed_columns(table: Table) -> list[str]:
    return [column.name for column in table.columns if f"{table.name}.{column.name}" in HASH_COLUMNS]


def export_permissions(*, logs: bool, secrets: bool) -> frozenset[P]:
    """Return the permissions that reading the parts one by one requires."""
    needed = {P.TENANT_DELETE, P.TENANT_READ, *(each.read for each in CONTENT_PERMISSIONS.values())}
    return frozenset(needed.union(LOG_PERMISSIONS.values() if logs else (), _SECRET_PERMISSIONS if secrets else ()))
