"""Background jobs, and responses stored by idempotency key."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, ForeignKey, Identity, Index, Integer, Text, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, HostAddress, UuidKey
from nac.kit.db.declarations import FileExclusion
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import Effect

_ZERO = text("0")


class Job(UuidKey, CreatedAt, Base):
    __tablename__ = "jobs"
    __table_args__ = (
        Index("ix_jobs_due_at", "due_at", postgresql_where=text("state IN ('queued', 'running')")),
        Index("ix_jobs_ended_at", "ended_at", postgresql_where=text("ended_at IS NOT NULL")),
        Index("ix_jobs_tenant_id", "tenant_id", "created_at", "id", postgresql_where=text("tenant_id IS NOT NULL")),
        Index("ix_jobs_msp_id", "msp_id", "created_at", "id", postgresql_where=text("msp_id IS NOT NULL")),
        Index("ix_jobs_platform", "created_at", "id", postgresql_where=text("msp_id IS NULL AND tenant_id IS NULL")),
    )
    tenant_file = FileExclusion("in progress")
    effects = (Effect.WORK, Effect.RULES, Effect.TENANTS, Effect.DISCLOSURE)

    msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    # noun.verb
    kind: Mapped[str]
    title: Mapped[str]
    # queued | running | done | failed | cancelled
    state: Mapped[str] = mapped_column(server_default="queued")
    # Whether a person requested cancellation. The worker checks this between steps.
    is_cancelled: Mapped[bool] = mapped_column(server_default=text("false"))
    # Completed part of `total`, in a unit that depends on the kind of job. A `total` of 0 means unknown.
    done: Mapped[int] = mapped_column(BigInteger(), server_default=_ZERO)
    total: Mapped[int] = mapped_column(BigInteger(), server_default=_ZERO)
    # Input of the job, encrypted. Admit deletes the input when the job is done.
    input_sealed: Mapped[bytes | None]
    # Position from which a job with several transactions continues.
    place: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))
    result: Mapped[dict[str, Any] | None]
    # Problem details (RFC 9457) of a failed job, or of a job that waits for a retry.
    problem: Mapped[dict[str, Any] | None]
    # Number of times that a worker started the job. A worker with an older number stops, because another worker has
    # taken over the job.
    takes: Mapped[int] = mapped_column(Integer(), server_default=_ZERO)
    failures: Mapped[int] = mapped_column(Integer(), server_default=_ZERO)
    # Number of times that the job has lost its worker since the last progress.
    lapses: Mapped[int] = mapped_column(Integer(), server_default=_ZERO)
    # Time from which a worker can start the job. While the job runs: time when another worker can take over.
    due_at: Mapped[datetime] = mapped_column(server_default=text("now()"))
    requested_by: Mapped[str]
    # Permissions required to start the job; null if an earlier version of Admit started the job.
    needs: Mapped[list[str] | None] = mapped_column(ARRAY(Text()))
    address: Mapped[str | None] = mapped_column(HostAddress())
    request_id: Mapped[str | None]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]


class IdempotencyKey(Base):
    """The stored response to a request with an Idempotency-Key, which Admit sends again for a repeated request."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (
        UniqueConstraint(
            "msp_id", "tenant_id", "asker", "key", name="uq_idempotency_keys_key", postgresql_nulls_not_distinct=True
        ),
        Index("ix_idempotency_keys_created_at", "created_at"),
    )
    tenant_file = FileExclusion("in progress")
    effects = ()

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    asker: Mapped[str]
    key: Mapped[str]
    request_sha256: Mapped[bytes]
    status: Mapped[int | None] = mapped_column(Integer())
    headers: Mapped[dict[str, Any] | None]
    # Encrypted, because a response can contain secrets.
    body_sealed: Mapped[bytes | None]
    # Id of an object that the request committed before it failed. A retry continues with this object.
    made_id: Mapped[UUID | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
