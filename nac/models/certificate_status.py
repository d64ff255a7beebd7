"""Status of certificates that Admit or an external authority issued."""

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKeyConstraint, Identity, Index, Numeric, PrimaryKeyConstraint, Text, func
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, TenantOwned, UuidKey
from nac.kit.db.declarations import FileContent, FileExclusion, Purge, report_conflict
from nac.kit.ids import TenantId
from nac.kit.permissions import Effect, Permission


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
    tenant_file = FileContent(Permission.CERTIFICATE_READ, (Permission.AUTHORITY_MANAGE,), needs_key=True)

    authority_id: Mapped[UUID] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(BigInteger(), default=0)
    # The last number that Admit reserved for a list. Larger than `number` if Admit did not publish that list.
    reserved_number: Mapped[int] = mapped_column(BigInteger(), default=0)
    # None until signed.
    crl_der: Mapped[bytes | None]
    this_update: Mapped[datetime | None]
    next_update: Mapped[datetime | None]
    # Time of the last list that Admit issued by schedule.
    scheduled_at: Mapped[datetime | None]
    retry_at: Mapped[datetime | None]


class RevocationWork(TenantOwned, Base):
    """Queue of authorities for which Admit must create a new revocation list. An authority can have several rows."""

    __tablename__ = "revocation_work"
    __table_args__ = (
        Index("ix_revocation_work_authority_id", "authority_id"),
        Index("ix_revocation_work_tenant_id", "tenant_id"),
    )
    tenant_file = FileExclusion("in progress")
    effects = ()

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
    tenant_file = FileExclusion("in progress")

    authority_id: Mapped[UUID]
    serial: Mapped[bytes]
    # Null until Admit has signed the certificate, because Admit stores the row first.
    certificate_der: Mapped[bytes | None]
    key_sealed: Mapped[bytes]
    not_before: Mapped[datetime]
    not_after: Mapped[datetime]


_AUTHORITY_KEY = (["tenant_id", "authority_id"], ["certificate_authorities.tenant_id", "certificate_authorities.id"])


class StatusSource(TenantOwned, Base):
    """Sources of certificate status for an external authority, and the result of the last download."""

    __tablename__ = "status_sources"
    __table_args__ = (
        PrimaryKeyConstraint(info=report_conflict("authority", "Another person has just set this source.")),
        ForeignKeyConstraint(*_AUTHORITY_KEY, ondelete="CASCADE"),
    )
    tenant_file = FileContent(Permission.CERTIFICATE_READ, (Permission.AUTHORITY_MANAGE,))
    effects = (Effect.TRUST, Effect.TENANTS)

    authority_id: Mapped[UUID] = mapped_column(primary_key=True)
    # URL that the administrator set; "" for the URL in each certificate.
    crl_url: Mapped[str] = mapped_column(default="")
    ocsp_url: Mapped[str] = mapped_column(default="")
    # Number of the current revocation list (RFC 5280 5.2.3), up to 20 octets.
    crl_number: Mapped[Decimal | None] = mapped_column(Numeric())
    crl_this_update: Mapped[datetime | None]
    crl_next_update: Mapped[datetime | None]
    crl_checked_at: Mapped[datetime | None]
    crl_due_at: Mapped[datetime] = mapped_column(server_default=func.now())
    crl_failure: Mapped[str] = mapped_column(default="")


class ExternalCertificate(Base):
    """A certificate that an external authority issued, and that a device presented.

    The agent copies the certificate from the journal of its cell, so the table has no foreign keys.
    """

    __tablename__ = "external_certificates"
    __table_args__ = (Index("ix_external_certificates_tenant_id_ocsp_due_at", "tenant_id", "ocsp_due_at"),)
    purge = Purge.LATE_ROWS
    tenant_file = FileExclusion("fetched again from its authority")
    effects = (Effect.TRUST, Effect.TENANTS)

    tenant_id: Mapped[TenantId]
    authority_id: Mapped[UUID] = mapped_column(primary_key=True)
    serial: Mapped[bytes] = mapped_column(primary_key=True)
    common_name: Mapped[str] = mapped_column(default="")
    crl_urls: Mapped[list[str]] = mapped_column(ARRAY(Text()), default=list)
    ocsp_urls: Mapped[list[str]] = mapped_column(ARRAY(Text()), default=list)
    not_after: Mapped[datetime]
    first_seen_at: Mapped[datetime]
    last_seen_at: Mapped[datetime]
    ocsp_this_update: Mapped[datetime | None]
    ocsp_checked_at: Mapped[datetime | None]
    ocsp_due_at: Mapped[datetime] = mapped_column(server_default=func.now())
    ocsp_failure: Mapped[str] = mapped_column(default="")


class ExternalStatus(TenantOwned, Base):
    """Status of one certificate of an external authority. Cells copy the status to their replicas."""

    __tablename__ = "external_statuses"
    __table_args__ = (
        ForeignKeyConstraint(*_AUTHORITY_KEY, ondelete="CASCADE"),
        Index("ix_external_statuses_tenant_id", "tenant_id"),
    )
    tenant_file = FileExclusion("fetched again from its authority")

    authority_id: Mapped[UUID] = mapped_column(primary_key=True)
    serial: Mapped[bytes] = mapped_column(primary_key=True)
    # Whether the certificate is on the authority's revocation list.
    listed: Mapped[bool] = mapped_column(default=False)
    # OCSP status: good | revoked; "" if no OCSP response is known.
    answer: Mapped[str] = mapped_column(default="")
    # Time until which the status is valid.
    until: Mapped[datetime | None]
