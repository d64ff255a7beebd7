from datetime import datetime
from typing import Literal
from uuid import UUID

from sqlalchemy import ForeignKey, Index, func, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, UuidKey
from nac.kit.db.declarations import FileExclusion
from nac.kit.ids import TenantId

MailState = Literal["queued", "sent", "failed"]


class Mail(UuidKey, CreatedAt, Base):
    """The outbox: a pending or sent mail. With neither MSP nor tenant, the platform's."""

    __tablename__ = "mails"
    __table_args__ = (
        Index("ix_mails_waiting", "due_at", postgresql_where=text("state = 'queued'")),
        Index("ix_mails_recipient_created_at", "recipient", "created_at"),
        Index("ix_mails_tenant_id", "tenant_id", postgresql_where=text("tenant_id IS NOT NULL")),
    )
    tenant_file = FileExclusion("people do not belong to a tenant")
    effects = ()

    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    # Identifies the message, so that it is sent once.
    key: Mapped[str] = mapped_column(unique=True)
    template: Mapped[str]
    recipient: Mapped[str]
    # JSON of the template's values, which can contain secret links; None after sending.
    values_sealed: Mapped[bytes | None]
    state: Mapped[str] = mapped_column(server_default="queued")
    # When it can be taken; while sending, end of the worker's lease.
    due_at: Mapped[datetime] = mapped_column(server_default=func.now())
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    error: Mapped[str] = mapped_column(server_default="")
    ended_at: Mapped[datetime | None]


def mail_context(mail_id: UUID) -> str:
    """Return the context in which a mail's values are sealed."""
    return f"mail:{mail_id}"
