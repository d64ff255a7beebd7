from datetime import datetime
from typing import Any, Literal, get_args

from sqlalchemy import BigInteger, Identity, Index, false, func, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.db.base import Base, CreatedAt, TenantOwned

ExportFormat = Literal["csv", "jsonl", "parquet"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
ExportState = Literal["queued", "running", "done", "failed", "cancelled", "pruned"]
EXPORT_STATES: tuple[ExportState, ...] = get_args(ExportState)


class ExportJob(TenantOwned, CreatedAt, Base):
    """A stretch of a log that is written into files."""

    __tablename__ = "export_jobs"
    __table_args__ = (
        Index("ix_export_jobs_tenant_id_id", "tenant_id", "id"),
        Index("ix_export_jobs_waiting", "due_at", postgresql_where=text("state IN ('queued', 'running')")),
        Index("uq_export_jobs_standing", "tenant_id", "log", "since", unique=True, postgresql_where=text("standing")),
    )

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    log: Mapped[str]
    since: Mapped[datetime]
    # Not included.
    until: Mapped[datetime]
    format: Mapped[str]
    # Of a day that is about to be deleted.
    standing: Mapped[bool] = mapped_column(server_default=false())
    state: Mapped[str] = mapped_column(server_default="queued")
    asked_by: Mapped[str]
    # When it may be taken; while it runs, until when its worker's time lasts.
    due_at: Mapped[datetime] = mapped_column(server_default=func.now())
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    failures: Mapped[int] = mapped_column(server_default=text("0"))
    # All before it is in `parts`.
    done_until: Mapped[datetime]
    rows: Mapped[int] = mapped_column(BigInteger(), server_default=text("0"))
    bytes: Mapped[int] = mapped_column(BigInteger(), server_default=text("0"))
    # Mappings of file, since, until, rows, bytes and sha256.
    parts: Mapped[list[Any]] = mapped_column(server_default=text("'[]'"))
    # Of the manifest.
    sha256: Mapped[str] = mapped_column(server_default="")
    error: Mapped[str] = mapped_column(server_default="")
    # Of a standing one: from then on its rows are being deleted.
    deletion_began_at: Mapped[datetime | None]
    # Of a standing one: its files have the rows that transactions before this one have written, in this database.
    rows_before: Mapped[int | None] = mapped_column(BigInteger())
    origin: Mapped[str] = mapped_column(server_default="")
    # Since when the database has none of them any more.
    rows_gone_at: Mapped[datetime | None]
