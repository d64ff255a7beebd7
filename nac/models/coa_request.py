from datetime import datetime
from typing import Any, Literal, get_args
from uuid import UUID

from sqlalchemy import BigInteger, Identity, Index, func, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, HostAddress, Mac, TenantOwned, Xid8
from nac.kit.db.declarations import FileExclusion, report_conflict
from nac.kit.permissions import Effect

CoaKind = Literal["disconnect", "reauthenticate", "bounce", "change"]
CoaState = Literal["queued", "sending", "acknowledged", "refused", "unanswered", "unreachable", "withdrawn", "expired"]
# Cause of the request: a person, a blocked endpoint, a changed certificate status, or a re-decision.
CoaReason = Literal["requested", "endpoint-blocked", "certificate-revoked", "certificate-suspended", "redecided"]
COA_STATES: tuple[CoaState, ...] = get_args(CoaState)


class CoaRequest(TenantOwned, CreatedAt, Base):
    """A request to a NAS about a live session (RFC 5176). Admit stores the row before it sends the packet."""

    __tablename__ = "coa_requests"
    __table_args__ = (
        Index("ix_coa_requests_tenant_id_id", "tenant_id", "id"),
        Index("ix_coa_requests_tenant_id_created_at_id", "tenant_id", "created_at", "id"),
        Index(
            "ix_coa_requests_waiting",
            "tenant_id",
            "priority",
            "id",
            postgresql_where=text("state IN ('queued', 'sending')"),
        ),
        Index("ix_coa_requests_session_row", "session_row", postgresql_where=text("state IN ('queued', 'sending')")),
        Index("ix_coa_requests_expires_at", "expires_at", postgresql_where=text("state IN ('queued', 'sending')")),
        Index("ix_coa_requests_sending", "due_at", postgresql_where=text("state = 'sending'")),
        Index(
            "uq_coa_requests_queued",
            "tenant_id",
            "session_row",
            "kind",
            "reason",
            unique=True,
            postgresql_where=text("state = 'queued' AND kind <> 'change'"),
            info=report_conflict("session", "A request of this kind is already pending for this session."),
        ),
        Index(
            "ix_coa_requests_redecision_id",
            "redecision_id",
            postgresql_where=text("redecision_id IS NOT NULL"),
        ),
        Index("ix_coa_requests_tenant_id_nas_id", "tenant_id", "nas_id", "id"),
        Index("ix_coa_requests_tenant_id_session_row", "tenant_id", "session_row"),
    )
    tenant_file = FileExclusion("in progress")
    effects = (Effect.SESSIONS, Effect.CREDENTIALS, Effect.REJECTION)

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    kind: Mapped[str] = mapped_column(server_default="disconnect")
    # For a change: [{"attribute": ..., "value": ..., "tag": ...}], in the notation of `nac.engine.dictionary`.
    attributes: Mapped[list[Any]] = mapped_column(server_default=text("'[]'"))
    requested_by: Mapped[str] = mapped_column(server_default="")
    # `sessions.id`; the columns below identify the session for the NAS (RFC 5176 3).
    session_row: Mapped[int] = mapped_column(BigInteger())
    session_id: Mapped[str]
    nas_id: Mapped[UUID | None]
    nas_address: Mapped[str | None] = mapped_column(HostAddress())
    nas_key: Mapped[str] = mapped_column(server_default="")
    nas_port: Mapped[str] = mapped_column(server_default="")
    mac: Mapped[str | None] = mapped_column(Mac())
    identity: Mapped[str] = mapped_column(server_default="")
    framed_ip: Mapped[str | None] = mapped_column(HostAddress())
    # requested | endpoint-blocked | certificate-revoked | certificate-suspended | ca-revoked | redecided
    reason: Mapped[str]
    # Serial number in hexadecimal.
    certificate_serial: Mapped[str] = mapped_column(default="")
    state: Mapped[str] = mapped_column(default="queued")
    # The agent sends lower values first (nac.sessions.coa_requests.request_queue).
    priority: Mapped[int] = mapped_column(server_default=text("0"))
    # Id of a transaction. The agent sends the request only when its cell has the changes of this transaction.
    after_xact: Mapped[str | None] = mapped_column(Xid8())
    expires_at: Mapped[datetime] = mapped_column(server_default=text("now() + interval '15 minutes'"))
    due_at: Mapped[datetime] = mapped_column(server_default=func.now())
    takings: Mapped[int] = mapped_column(server_default=text("0"))
    # Number of times that the agent postponed the request because the NAS did not respond.
    retries: Mapped[int] = mapped_column(server_default=text("0"))
    step: Mapped[int] = mapped_column(server_default=text("0"))
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    sent_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    # Code of the response, and its Error-Cause (RFC 5176 3.5).
    answer_code: Mapped[int | None]
    error_cause: Mapped[int | None]
    # The re-decision that caused the request.
    redecision_id: Mapped[int | None] = mapped_column(BigInteger())
    # Message for people, with the result and the remedy.
    detail: Mapped[str] = mapped_column(server_default="")
