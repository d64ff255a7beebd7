from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKeyConstraint, Identity, Index
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, TenantOwned, UuidKey


class RevocationList(TenantOwned, Base):
    """The current revocation list of an authority."""

    __tablename__ = "revocation_lists"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "authority_id"],
            ["certificate_authorities.tenant_id", "certificate_authorities.id"],
            ondelete="CASCADE",
        ),
        Index("ix_revocation_lists_tenant_id", "tenant_id"),
    )

    authority_id: Mapped[UUID] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(BigInteger(), default=0)
    # The last list number that Admit reserved before signing. Larger than `number` if Admit did not publish that
    # list.
    reserved_number: Mapped[int] = mapped_column(BigInteger(), default=0)
    # None until signed.
    crl_der: Mapped[bytes | None]
    this_update: Mapped[datetime | None]
    next_update: Mapped[datetime | None]
    # Time of the last list that Admit issued by schedule.
    scheduled_at: Mapped[datetime | None]
    retry_at: Mapped[datetime | None]


class RevocationWork(TenantOwned, Base):
    """Queue of authorities that need a new revocation list. An authority can have several rows."""

    __tablename__ = "revocation_work"
    __table_args__ = (
        Index("ix_revocation_work_authority_id", "authority_id"),
        Index("ix_revocation_work_tenant_id", "tenant_id"),
    )

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    authority_id: Mapped[UUID]


class OcspSignerRow(UuidKey, TenantOwned, Base):
    """A certificate for signing OCSP responses of an authority (RFC 6960 2.6)."""

    __tablename__ = "ocsp_signers"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "authority_id"],
            ["certificate_authorities.tenant_id", "certificate_authorities.id"],
            ondelete="CASCADE",
        ),
        Index("ix_ocsp_signers_authority_id_not_after", "authority_id", "not_after"),
        Index("ix_ocsp_signers_tenant_id", "tenant_id"),
    )

    authority_id: Mapped[UUID]
    serial: Mapped[bytes]
    # Null until signed, because Admit stores the row before it signs.
    certificate_der: Mapped[bytes | None]
    key_sealed: Mapped[bytes]
    not_before: Mapped[datetime]
    not_after: Mapped[datetime]
