from datetime import date, datetime

from sqlalchemy import BigInteger, ForeignKey, Identity, Index, PrimaryKeyConstraint, true
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, TenantOwned
from nac.kit.db.declarations import FileContent, FileExclusion, report_conflict
from nac.kit.ids import TenantId
from nac.kit.permissions import Effect, Permission


class RetentionLimits(Base):
    """The platform's limits for the retention of a log, if they differ from the defaults."""

    __tablename__ = "retention_limits"
    effects = (Effect.ERASURE,)

    log: Mapped[str] = mapped_column(primary_key=True)
    floor_days: Mapped[int]
    default_days: Mapped[int]
    ceiling_days: Mapped[int]
    ceiling_bytes: Mapped[int | None] = mapped_column(BigInteger())


class RetentionSetting(TenantOwned, Base):
    """A tenant's retention settings for a log. Null selects the platform's default."""

    __tablename__ = "retention_settings"
    __table_args__ = (
        PrimaryKeyConstraint(info=report_conflict("tenant", "Another person has just changed these settings.")),
    )
    tenant_file = FileContent(Permission.RETENTION_READ, (Permission.RETENTION_MANAGE,))
    effects = (Effect.ERASURE,)

    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)
    log: Mapped[str] = mapped_column(primary_key=True)
    days: Mapped[int | None]
    bytes: Mapped[int | None] = mapped_column(BigInteger())
    # File format of the export before deletion; null for no export.
    export_format: Mapped[str | None]


class RetentionTerm(TenantOwned, Base):
    """A value of a tenant's retention that applies now, and the announced lower value that will replace it."""

    __tablename__ = "retention_terms"
    tenant_file = FileContent(Permission.RETENTION_READ, (Permission.RETENTION_MANAGE,))
    effects = ()

    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)
    log: Mapped[str] = mapped_column(primary_key=True)
    # days | floor | bytes | export
    part: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[int] = mapped_column(BigInteger())
    announced: Mapped[int | None] = mapped_column(BigInteger())
    announced_at: Mapped[datetime | None]


class RetentionHold(CreatedAt, Base):
    """A hold: days whose log rows must not be deleted, from the first to the last day (included).

    If a day is null, the hold has no limit on that side. If the log is null, the hold covers all logs.
    """

    __tablename__ = "retention_holds"
    __table_args__ = (Index("ix_retention_holds_tenant_id", "tenant_id", "created_at", "id"),)
    plural = "holds of logs"
    tenant_file = FileExclusion("belongs to the logs")
    effects = (Effect.ERASURE,)

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    # No cascade: a hold prevents the tenant's deletion.
    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id"))
    log: Mapped[str | None]
    first_day: Mapped[date | None]
    last_day: Mapped[date | None]
    reason: Mapped[str]
    set_by: Mapped[str]
    cleared_at: Mapped[datetime | None]
    cleared_by: Mapped[str] = mapped_column(server_default="")


class RetentionNotice(TenantOwned, Base):
    """A warning about early deletion, shorter retention, or a deletion that waits for an export."""

    __tablename__ = "retention_notices"
    tenant_file = FileExclusion("belongs to the logs")

    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)
    log: Mapped[str] = mapped_column(primary_key=True)
    # budget | change | export
    kind: Mapped[str] = mapped_column(primary_key=True)
    since: Mapped[datetime]
    expected_on: Mapped[date | None]
    detail: Mapped[str]


class LogSize(TenantOwned, Base):
    """Estimated size of the rows of one UTC day in a tenant's log."""

    __tablename__ = "log_sizes"
    __table_args__ = (Index("ix_log_sizes_log_day", "log", "day"),)
    tenant_file = FileExclusion("belongs to the logs")

    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)
    log: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    rows: Mapped[int] = mapped_column(BigInteger())
    bytes: Mapped[int] = mapped_column(BigInteger())


class LogMeasure(Base):
    """Time of the last measurement of a partition, and number of rows that were inserted before the measurement."""

    __tablename__ = "log_measures"

    log: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    inserted: Mapped[int] = mapped_column(BigInteger())
    measured_at: Mapped[datetime]


class EarlyDeletion(TenantOwned, Base):
    """Rows of a day that Admit deleted early, but has not reported in the audit log yet."""

    __tablename__ = "early_deletions"
    tenant_file = FileExclusion("belongs to the logs")

    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)
    log: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    rows: Mapped[int] = mapped_column(BigInteger())


class RetentionClock(Base):
    """Time of the last retention run, and end of the period in which retention distrusts the clock.

    Both times come from the database's clock. The table has one row.
    """

    __tablename__ = "retention_clock"

    id: Mapped[bool] = mapped_column(primary_key=True, server_default=true())
    seen_at: Mapped[datetime]
    doubted_until: Mapped[datetime | None]
