from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKey, Identity, Index, Integer, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base
from nac.kit.db.declarations import FileExclusion
from nac.kit.ids import MspId, TenantId


class IdempotencyKey(Base):
    """The response to a change with an idempotency key."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (
        UniqueConstraint(
            "msp_id", "tenant_id", "asker", "key", name="uq_idempotency_keys_key", postgresql_nulls_not_distinct=True
        ),
        Index("ix_idempotency_keys_created_at", "created_at"),
    )
    tenant_file = FileExclusion("in progress")

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    asker: Mapped[str]
    key: Mapped[str]
    request_sha256: Mapped[bytes]
    status: Mapped[int | None] = mapped_column(Integer())
    headers: Mapped[dict[str, Any] | None]
    # Responses can contain secrets that are shown once.
    body_sealed: Mapped[bytes | None]
    # Object created before an intermediate commit; a retry continues with it.
    made_id: Mapped[UUID | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
