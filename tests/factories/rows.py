"""A valid row of any table, generated from the metadata."""

from typing import Any
from uuid import uuid4

from sqlalchemy import Column, ForeignKeyConstraint, Table, insert
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.ids import TenantId

# Values for CHECK constraints that are stricter than the type.
_BY_NAME: dict[str, Any] = {
    "certificate_authorities.kind": "root",
    "certificate_authorities.status": "active",
    "certificate_authorities.key_store": "sealed",
    "certificates.status": "intended",
    "authority_intents.kind": "root",
    "authority_intents.key_store": "sealed",
    "certificate_settings.key_store": "sealed",
    "endpoints.status": "active",
    "endpoints.found_why": [],
    "users.password_hash": "$argon2id$v=19$m=19456,t=2,p=1$p08hrPR30FzXa4sh8XfU1g$"
    "iexKppQir0TJJ3388cOWT9R6eOTWL97s8w2cApGmSc8",
    "policy_versions.status": "draft",
    "sites.time_zone": "UTC",
    "policy_versions.document": {"rules": []},
    "enrolment_secrets.kind": "est",
    "identity_sources.name": "corp",
    "identity_sources.kind": "ldap",
    "identity_sources.settings": {"urls": ["ldaps://ldap.corp.example"], "base_dn": "dc=corp,dc=example"},
    "coa_requests.state": "queued",
    "pools.kind": "ipv4",
    "pools.prefix_length": 32,
    "pools.ranges": ["10.0.0.0/28"],
    "pool_addresses.address": "10.0.0.1",
    "external_statuses.answer": "good",
    "redecisions.scope": "all",
    "redecision_items.action": "disconnect",
    "redecision_items.state": "found",
    "redecision_settings.mode": "send",
    "redecision_settings.every_minutes": 0,
    "retention_settings.log": "auth",
    "retention_terms.log": "auth",
    "retention_terms.part": "days",
    "retention_notices.kind": "budget",
    "export_jobs.log": "auth",
    "export_jobs.format": "csv",
    "feeds.slug": "siem",
    "feeds.kind": "syslog",
    "scep_webhooks.settings": {"url": "https://mdm.corp.example/check"},
    "event_notes.kind": "alarm",
    "decision_counts.seconds": 60,
    "reject_counts.seconds": 60,
    "self_tests.state": "queued",
    "secret_rotations.state": "running",
    "secret_rotations.at_end": "finish",
}
_BY_TYPE: dict[str, Any] = {
    "BOOLEAN": lambda: True,
    "INTEGER": lambda: 1,
    "BIGINT": lambda: 1,
    "BIGINTEGER": lambda: 1,
    "TEXT": lambda: uuid4().hex,
    "UUID": uuid4,
    "DATETIME": utc_now,
    "DATE": lambda: utc_now().date(),
    "JSON": dict,
    "JSONB": dict,
    "ARRAY": list,
    "MAC": lambda: "02" + uuid4().hex[:10],
    "LARGEBINARY": lambda: b"\1" + uuid4().bytes,
}


def _value(column: Column[Any]) -> Any:
    by_name = _BY_NAME.get(f"{column.table.name}.{column.name}")
    return by_name if by_name is not None else _BY_TYPE[type(column.type).__name__.upper()]()


def _is_required(column: Column[Any]) -> bool:
    return not column.nullable and column.server_default is None and column.identity is None


def _reference(constraint: ForeignKeyConstraint) -> Column[Any]:
    """The column with the other row's id, next to the column with the tenant's id."""
    return next((column for column in constraint.columns if column.name != "tenant_id"), constraint.table.c.tenant_id)


def make_row(session: Session, table: Table, tenant_id: TenantId, **values: Any) -> dict[str, Any]:
    """Insert a row of `table` for the tenant, and before it a row of each referenced table.

    Returns the values of the row. `values` are used unchanged.
    """
    row: dict[str, Any] = {"tenant_id": tenant_id} | values
    for constraint in table.foreign_key_constraints:
        column = _reference(constraint)
        if column.name not in row and not column.nullable:
            row[column.name] = make_row(session, constraint.referred_table, tenant_id)["id"]
    for column in table.columns:
        if _is_required(column) and column.name not in row:
            row[column.name] = _value(column)
    if table.name == "nases":
        row["identifier"] = uuid4().hex
    if table.name == "auth_log":
        names = row.get("request", {}).get("certificate.common_name", [""])
        row = {"identity_key": row.get("identity", "").lower(), "common_name_key": "".join(names[:1]).lower()} | row
    # Inline, without RETURNING, which needs the right to read.
    session.execute(insert(table).values(row).inline())
    return row
