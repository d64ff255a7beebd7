from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index, PrimaryKeyConstraint, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, TenantOwned, UpdatedAt, UuidKey
from nac.kit.db.declarations import FileContent, FileExclusion, report_conflict, seal_with
from nac.kit.ids import TenantId
from nac.kit.permissions import Effect, Permission


class ScepTransaction(UuidKey, TenantOwned, CreatedAt, Base):
    """The certificate that a SCEP transaction issued."""

    __tablename__ = "scep_transactions"
    __table_args__ = (
        UniqueConstraint("tenant_id", "certificate_id"),
        ForeignKeyConstraint(
            ["tenant_id", "certificate_id"], ["certificates.tenant_id", "certificates.id"], ondelete="CASCADE"
        ),
        ForeignKeyConstraint(
            ["tenant_id", "renews_id"], ["certificates.tenant_id", "certificates.id"], ondelete="CASCADE"
        ),
        Index("ix_scep_transactions_tenant_id_transaction_id", "tenant_id", "transaction_id"),
        Index("ix_scep_transactions_tenant_id_created_at", "tenant_id", "created_at"),
    )
    tenant_file = FileExclusion("in progress")

    # Transaction id that the device chose.
    transaction_id: Mapped[str]
    certificate_id: Mapped[UUID]
    # The certificate that signed the renewal request; null for a first request with a challenge.
    renews_id: Mapped[UUID | None]


class ScepWebhook(CreatedAt, UpdatedAt, Base):
    """The webhook that verifies SCEP challenges that Admit did not create."""

    __tablename__ = "scep_webhooks"
    __table_args__ = (PrimaryKeyConstraint(info=report_conflict("tenant", "Another person has just set the webhook.")),)
    tenant_file = FileContent(Permission.CERTIFICATE_READ, (Permission.AUTHORITY_MANAGE,), needs_key=True)
    effects = (Effect.TRUST, Effect.REJECTION)

    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)
    # In the format of nac.certificates.scep.settings.
    settings: Mapped[dict[str, Any]]
    # Secret that signs requests to the webhook.
    secret_sealed: Mapped[bytes] = mapped_column(info=seal_with("scep-webhook:{tenant}"))
