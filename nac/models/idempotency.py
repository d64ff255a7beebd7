from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKey, Identity, Index, Integer, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base
from nac.kit.ids import MspId, TenantId


class IdempotencyKey(Base):
    """The stored response to a request with an Idempotency-Key. A repeated request gets this response."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (
        UniqueConstraint(
            "msp_id", "tenant_id", "asker", "key", name="uq_idempotency_keys_key", postgresql_nulls_not_distinct=True
        ),
        Index("ix_idempotency_keys_created_at", "created_at"),
    )

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
