from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKeyConstraint, Identity, Index
from sqlalchemy.orm import Mapped, mapped_column

from nac.db.base import Base, TenantOwned, UuidKey


class RevocationList(TenantOwned, Base):
    """The list that an authority publishes now."""

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
    # The last number that was taken, before its list was signed; beyond `number` where that list was not published.
    reserved_number: Mapped[int] = mapped_column(BigInteger(), default=0)
    # None until signed.
    crl_der: Mapped[bytes | None]
    this_update: Mapped[datetime | None]
    next_update: Mapped[datetime | None]
    # Of the last list that was made because it was time.
    scheduled_at: Mapped[datetime | None]
    retry_at: Mapped[datetime | None]


class RevocationWork(TenantOwned, Base):
    """Authorities whose list is to be made anew, any number of times each."""

    __tablename__ = "revocation_work"
    __table_args__ = (
        Index("ix_revocation_work_authority_id", "authority_id"),
        Index("ix_revocation_work_tenant_id", "tenant_id"),
    )

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    authority_id: Mapped[UUID]


class OcspSignerRow(UuidKey, TenantOwned, Base):
    """Whom an authority has told to answer for it (RFC 6960 2.6)."""

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
    # None until signed: the row is written before the signature.
    certificate_der: Mapped[bytes | None]
    key_sealed: Mapped[bytes]
    not_before: Mapped[datetime]
    not_after: Mapped[datetime]
