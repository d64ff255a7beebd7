from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKey, Identity, Index, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, HostAddress
from nac.kit.db.declarations import FileExclusion, FileLog, Reference
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import Permission


class AuditEntry(Base):
    """An entry of the audit log. A trigger rejects updates and deletes.

    The table has no foreign keys, so that an entry outlives the objects that it names.
    """

    __tablename__ = "audit_log"
    __table_args__ = (
        Index("ix_audit_log_tenant_id_id", "tenant_id", "id"),
        Index("ix_audit_log_tenant_id_at_id", "tenant_id", "at", "id"),
        Index("ix_audit_log_msp_id_id", "msp_id", "id"),
        Index("ix_audit_log_at_id", "at", "id"),
        Index("ix_audit_log_msp_id_at_id", "msp_id", "at", "id"),
        Index("ix_audit_log_tenant_id_actor_at_id", "tenant_id", "actor", "at", "id"),
        Index("ix_audit_log_tenant_id_action_at_id", "tenant_id", "action", "at", "id"),
        Index("ix_audit_log_tenant_id_target_at_id", "tenant_id", "target", "at", "id"),
        Index("ix_audit_log_request_id", "request_id"),
    )
    tenant_file = FileLog(Permission.AUDIT_READ)
    effects = ()

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    # Kind and name of the actor, such as cli:alice or system:agent.
    actor: Mapped[str]
    tenant_id: Mapped[UUID | None]
    msp_id: Mapped[UUID | None]
    # noun.verb
    action: Mapped[str]
    target: Mapped[str]
    # Source address and X-Request-Id of the HTTP request; both null if no request caused the entry.
    address: Mapped[str | None] = mapped_column(HostAddress())
    request_id: Mapped[str | None]
    before: Mapped[dict[str, Any] | None]
    after: Mapped[dict[str, Any] | None]


class AuditKey(Base):
    """A key that signs the last entries of audit chains."""

    __tablename__ = "audit_keys"
    reference = Reference("audit", "a key")

    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    # Ed25519, 32 bytes.
    public_key: Mapped[bytes]
    private_sealed: Mapped[bytes]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class AuditChain(Base):
    """The audit chain of a tenant, an MSP or the platform, with the position and hash of its last entry."""

    __tablename__ = "audit_chains"
    __table_args__ = (UniqueConstraint("tenant_id", "msp_id", postgresql_nulls_not_distinct=True),)
    reference = Reference("audit", "an audit chain")
    tenant_file = FileExclusion("sealed where it was written")

    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    tenant_id: Mapped[TenantId | None]
    msp_id: Mapped[MspId | None]
    position: Mapped[int] = mapped_column(BigInteger())
    hash: Mapped[bytes]
    sealed_at: Mapped[datetime]
    key_id: Mapped[int] = mapped_column(ForeignKey("audit_keys.id"))
    signature: Mapped[bytes]
    broken: Mapped[bool] = mapped_column(server_default="false")


class AuditSeal(Base):
    """The position of an entry in its chain. A trigger rejects updates and deletes."""

    __tablename__ = "audit_seals"
    __table_args__ = (UniqueConstraint("entry_id"),)

    chain_id: Mapped[int] = mapped_column(ForeignKey("audit_chains.id"), primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger(), primary_key=True)
    entry_id: Mapped[int] = mapped_column(BigInteger())
    hash: Mapped[bytes]


class UnsealedAuditEntry(Base):
    """An entry that waits for its position in a chain."""

    __tablename__ = "audit_unsealed"
    effects = ()

    entry_id: Mapped[int] = mapped_column(BigInteger(), primary_key=True, autoincrement=False)
    held: Mapped[bool] = mapped_column(server_default="false")
