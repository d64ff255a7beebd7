from datetime import datetime
from typing import Literal
from uuid import UUID

from sqlalchemy import ForeignKey, Index, func, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.db.base import Base, CreatedAt, UuidKey
from nac.ids import TenantId

MailState = Literal["queued", "sent", "failed"]


class Mail(UuidKey, CreatedAt, Base):
    """One that is to be sent, or was: the outbox. With neither MSP nor tenant, of the platform."""

    __tablename__ = "mails"
    __table_args__ = (
        Index("ix_mails_waiting", "due_at", postgresql_where=text("state = 'queued'")),
        Index("ix_mails_recipient_created_at", "recipient", "created_at"),
        Index("ix_mails_tenant_id", "tenant_id", postgresql_where=text("tenant_id IS NOT NULL")),
    )

    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    # What it is about: the same is sent once.
    key: Mapped[str] = mapped_column(unique=True)
    template: Mapped[str]
    recipient: Mapped[str]
    # JSON of the template's values, which may hold links that open something; None once it is over.
    values_sealed: Mapped[bytes | None]
    state: Mapped[str] = mapped_column(server_default="queued")
    # When it may be taken; while it is being sent, until when its worker's time lasts.
    due_at: Mapped[datetime] = mapped_column(server_default=func.now())
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    error: Mapped[str] = mapped_column(server_default="")
    ended_at: Mapped[datetime | None]


def mail_context(mail_id: UUID) -> str:
    """What a mail's values are sealed for."""
    return f"mail:{mail_id}"
