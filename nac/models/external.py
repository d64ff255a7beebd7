"""Status of certificates of external authorities."""

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from sqlalchemy import ForeignKeyConstraint, Index, Numeric, Text, func
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, TenantOwned
from nac.kit.ids import TenantId

_AUTHORITY_KEY = (["tenant_id", "authority_id"], ["certificate_authorities.tenant_id", "certificate_authorities.id"])


class StatusSource(TenantOwned, Base):
    """Sources of certificate status for an external authority, and the result of the last download."""

    __tablename__ = "status_sources"
    __table_args__ = (ForeignKeyConstraint(*_AUTHORITY_KEY, ondelete="CASCADE"),)

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
    """A certificate that a device presented. The agent writes it, from its journal, so there are no foreign keys."""

    __tablename__ = "external_certificates"
    __table_args__ = (Index("ix_external_certificates_tenant_id_ocsp_due_at", "tenant_id", "ocsp_due_at"),)

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
    """Status of one certificate. Cells copy it to their replicas."""

    __tablename__ = "external_statuses"
    __table_args__ = (
        ForeignKeyConstraint(*_AUTHORITY_KEY, ondelete="CASCADE"),
        Index("ix_external_statuses_tenant_id", "tenant_id"),
    )

    authority_id: Mapped[UUID] = mapped_column(primary_key=True)
    serial: Mapped[bytes] = mapped_column(primary_key=True)
    # Whether the certificate is on the authority's revocation list.
    listed: Mapped[bool] = mapped_column(default=False)
    # OCSP status: good | revoked; "" if there is none.
    answer: Mapped[str] = mapped_column(default="")
    # End of the status's validity.
    until: Mapped[datetime | None]
