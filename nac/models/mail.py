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
    """A pending or sent mail. `tenant_id` is null if the mail does not belong to a tenant."""

    __tablename__ = "mails"
    __table_args__ = (
        Index("ix_mails_waiting", "due_at", postgresql_where=text("state = 'queued'")),
        Index("ix_mails_recipient_created_at", "recipient", "created_at"),
        Index("ix_mails_tenant_id", "tenant_id", postgresql_where=text("tenant_id IS NOT NULL")),
    )
    tenant_file = FileExclusion("people do not belong to a tenant")
    effects = ()

    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    # Key of the message, so that Admit sends it only once.
    key: Mapped[str] = mapped_column(unique=True)
    template: Mapped[str]
    recipient: Mapped[str]
    # Values of the template as encrypted JSON, because they can contain secret links. Null after sending.
    values_sealed: Mapped[bytes | None]
    state: Mapped[str] = mapped_column(server_default="queued")
    # Time from which a worker can send the mail. While a worker sends it: time when another worker can take over.
    due_at: Mapped[datetime] = mapped_column(server_default=func.now())
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    error: Mapped[str] = mapped_column(server_default="")
    ended_at: Mapped[datetime | None]


def mail_context(mail_id: UUID) -> str:
    return f"mail:{mail_id}"
