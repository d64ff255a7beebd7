from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Identity, Index, func
from sqlalchemy.orm import Mapped, mapped_column

from nac.db.base import Base
from nac.db.types import HostAddress


class AuditEntry(Base):
    """Who changed what. Append-only by trigger; without foreign keys, so that it outlives what it names."""

    __tablename__ = "audit_log"
    __table_args__ = (
        Index("ix_audit_log_tenant_id_id", "tenant_id", "id"),
        Index("ix_audit_log_tenant_id_at_id", "tenant_id", "at", "id"),
        Index("ix_audit_log_msp_id_id", "msp_id", "id"),
    )

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    # Kind and name, such as cli:alice or system:agent.
    actor: Mapped[str]
    tenant_id: Mapped[UUID | None]
    msp_id: Mapped[UUID | None]
    # noun.verb
    action: Mapped[str]
    target: Mapped[str]
    # Of who asked over HTTP, and the request's name in answer and log.
    address: Mapped[str | None] = mapped_column(HostAddress())
    request_id: Mapped[str | None]
    before: Mapped[dict[str, Any] | None]
    after: Mapped[dict[str, Any] | None]
