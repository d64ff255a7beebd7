"""Append-only logs, partitioned by day.

The tables have no foreign keys, because rows arrive late and in bulk, and outlive the objects that they name.

Columns that are only read as a whole are `json`, not `jsonb`. PostgreSQL does not convert `json`, so writing a row
costs a sixth less.
"""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Index, Sequence, text
from sqlalchemy.dialects.postgresql import JSON
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, HostAddress, Mac
from nac.kit.db.declarations import FileExclusion, FileLog, Purge
from nac.kit.ids import CellId, TenantId
from nac.kit.permissions import Permission

AUTH_LOG_ID = Sequence("auth_log_id_seq", metadata=Base.metadata)
ACCOUNTING_LOG_ID = Sequence("accounting_log_id_seq", metadata=Base.metadata)
# Periods of DecisionCount and RejectCount.
MINUTE_SECONDS, HOUR_SECONDS = 60, 3_600
# Retention deletes older counts.
MINUTES_KEPT, HOURS_KEPT = timedelta(days=2), timedelta(days=90)


class AuthLog(Base):
    """A request or EAP conversation to which radiusd has responded.

    The columns are fields of `nac.cellformat.journal.records.AuthRecord`.
    """

    __tablename__ = "auth_log"
    __table_args__ = (
        Index("ix_auth_log_tenant_id_mac_at", "tenant_id", "mac", text("at DESC")),
        Index(
            "ix_auth_log_tenant_id_certificate_serial_at",
            "tenant_id",
            "certificate_serial",
            text("at DESC"),
            postgresql_where=text("certificate_serial <> ''"),
        ),
        Index(
            "ix_auth_log_not_admitted",
            "tenant_id",
            text("at DESC"),
            text("id DESC"),
            postgresql_where=text("NOT permitted OR verdict IN ('quarantine', 'deny') OR monitored <> ''"),
        ),
        Index(
            "ix_auth_log_identity_key",
            "tenant_id",
            "identity_key",
            text("at DESC"),
            text("id DESC"),
            postgresql_where=text("identity_key <> ''"),
        ),
        Index(
            "ix_auth_log_common_name_key",
            "tenant_id",
            "common_name_key",
            text("at DESC"),
            text("id DESC"),
            postgresql_where=text("common_name_key <> ''"),
        ),
        {"postgresql_partition_by": "RANGE (at)"},
    )
    tenant_file = FileLog(Permission.LOG_READ)

    tenant_id: Mapped[TenantId] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(primary_key=True)
    id: Mapped[int] = mapped_column(
        BigInteger(), AUTH_LOG_ID, server_default=AUTH_LOG_ID.next_value(), primary_key=True
    )
    cell_id: Mapped[CellId]
    site_id: Mapped[UUID | None]
    nas_id: Mapped[UUID | None]
    nas_address: Mapped[str | None] = mapped_column(HostAddress())
    nas_identifier: Mapped[str]
    nas_port: Mapped[str]
    mac: Mapped[str | None] = mapped_column(Mac())
    identity: Mapped[str]
    method: Mapped[str]
    permitted: Mapped[bool]
    reason: Mapped[str]
    detail: Mapped[str]
    rule_id: Mapped[str]
    rule_name: Mapped[str]
    policy_id: Mapped[UUID | None]
    policy_version: Mapped[int]
    vlan: Mapped[str]
    # List of [attribute, operator, value].
    reply: Mapped[list[Any]] = mapped_column(JSON())
    certificate_serial: Mapped[str]
    tls_version: Mapped[str]
    resumed: Mapped[bool]
    request: Mapped[dict[str, Any]] = mapped_column(JSON())
    module_microseconds: Mapped[int]
    suppressed: Mapped[int]
    verdict: Mapped[str] = mapped_column(server_default="")
    monitored: Mapped[str] = mapped_column(server_default="")
    # User name in lower case; "" for MAB.
    identity_key: Mapped[str] = mapped_column(server_default="")
    # Common name of the presented certificate, in lower case.
    common_name_key: Mapped[str] = mapped_column(server_default="")


class AccountingLog(Base):
    """An Accounting-Request that radiusd acknowledged."""

    __tablename__ = "accounting_log"
    __table_args__ = ({"postgresql_partition_by": "RANGE (at)"},)
    tenant_file = FileLog(Permission.LOG_READ)

    tenant_id: Mapped[TenantId] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(primary_key=True)
    id: Mapped[int] = mapped_column(
        BigInteger(), ACCOUNTING_LOG_ID, server_default=ACCOUNTING_LOG_ID.next_value(), primary_key=True
    )
    cell_id: Mapped[CellId]
    site_id: Mapped[UUID | None]
    nas_id: Mapped[UUID | None]
    nas_address: Mapped[str | None] = mapped_column(HostAddress())
    status_type: Mapped[str]
    session_id: Mapped[str]
    mac: Mapped[str | None] = mapped_column(Mac())
    identity: Mapped[str]
    session_seconds: Mapped[int | None] = mapped_column(BigInteger())
    input_octets: Mapped[int | None] = mapped_column(BigInteger())
    output_octets: Mapped[int | None] = mapped_column(BigInteger())
    terminate_cause: Mapped[str]
    # List of [name, value], in the received order.
    attributes: Mapped[list[Any]] = mapped_column(JSON())


class DecisionCount(Base):
    """Numbers of decisions in a minute or hour. Only the agent writes the rows.

    Each decision counts in the row of its minute and in the row of its hour. Rejects that the cell counted instead of
    logging each of them (`AuthLog.suppressed`) count too. Self-tests do not count.
    """

    __tablename__ = "decision_counts"
    purge = Purge.LATE_ROWS
    tenant_file = FileExclusion("counted again from new decisions")

    tenant_id: Mapped[TenantId] = mapped_column(primary_key=True)
    # Length of the period: MINUTE_SECONDS or HOUR_SECONDS.
    seconds: Mapped[int] = mapped_column(primary_key=True)
    start_at: Mapped[datetime] = mapped_column(primary_key=True)
    permitted: Mapped[int] = mapped_column(BigInteger())
    quarantined: Mapped[int] = mapped_column(BigInteger())
    rejected: Mapped[int] = mapped_column(BigInteger())


class RejectCount(Base):
    """Number of rejects with a reason in a minute or hour, as in `DecisionCount`."""

    __tablename__ = "reject_counts"
    purge = Purge.LATE_ROWS
    tenant_file = FileExclusion("counted again from new decisions")

    tenant_id: Mapped[TenantId] = mapped_column(primary_key=True)
    seconds: Mapped[int] = mapped_column(primary_key=True)
    start_at: Mapped[datetime] = mapped_column(primary_key=True)
    reason: Mapped[str] = mapped_column(primary_key=True)
    rejected: Mapped[int] = mapped_column(BigInteger())
