from datetime import datetime
from typing import Any, Literal, get_args

from sqlalchemy import BigInteger, Identity, Index, false, func, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, TenantOwned
from nac.kit.db.declarations import FileExclusion, report_conflict
from nac.kit.permissions import Effect

ExportFormat = Literal["csv", "jsonl", "parquet"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
ExportState = Literal["queued", "running", "done", "failed", "cancelled", "pruned"]
EXPORT_STATES: tuple[ExportState, ...] = get_args(ExportState)


class ExportJob(TenantOwned, CreatedAt, Base):
    """An export of part of a log to files."""

    __tablename__ = "export_jobs"
    __table_args__ = (
        Index("ix_export_jobs_tenant_id_id", "tenant_id", "id"),
        Index("ix_export_jobs_waiting", "due_at", postgresql_where=text("state IN ('queued', 'running')")),
        Index(
            "uq_export_jobs_standing",
            "tenant_id",
            "log",
            "since",
            unique=True,
            postgresql_where=text("standing"),
            info=report_conflict("since", "This export is already scheduled."),
        ),
    )
    tenant_file = FileExclusion("in progress")
    effects = (Effect.WORK, Effect.RECORDS)

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    log: Mapped[str]
    since: Mapped[datetime]
    # End of the period, exclusive.
    until: Mapped[datetime]
    format: Mapped[str]
    # Whether the job exports a day that retention deletes only after this export.
    standing: Mapped[bool] = mapped_column(server_default=false())
    state: Mapped[str] = mapped_column(server_default="queued")
    requested_by: Mapped[str]
    # Time from which a worker can start the job. While the job runs: time when another worker can take over.
    due_at: Mapped[datetime] = mapped_column(server_default=func.now())
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    failures: Mapped[int] = mapped_column(server_default=text("0"))
    # The files in `parts` contain all rows before this time.
    done_until: Mapped[datetime]
    rows: Mapped[int] = mapped_column(BigInteger(), server_default=text("0"))
    bytes: Mapped[int] = mapped_column(BigInteger(), server_default=text("0"))
    # List of files, each with `file`, `since`, `until`, `rows`, `bytes` and `sha256`.
    parts: Mapped[list[Any]] = mapped_column(server_default=text("'[]'"))
    # Hash of the manifest.
    sha256: Mapped[str] = mapped_column(server_default="")
    error: Mapped[str] = mapped_column(server_default="")
    # Only for a required export: time when the deletion of its rows began.
    deletion_began_at: Mapped[datetime | None]
    # Only for a required export: a transaction id. The files have all rows that transactions with an id below it wrote
    # in the database `origin`.
    rows_before: Mapped[int | None] = mapped_column(BigInteger())
    origin: Mapped[str] = mapped_column(server_default="")
    # Time when all rows were deleted from the database.
    rows_gone_at: Mapped[datetime | None]
