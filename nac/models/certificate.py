from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKeyConstraint, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from nac.db.base import Base, CreatedAt, TenantOwned, UuidKey


class CertificateAuthority(UuidKey, TenantOwned, Base):
    __tablename__ = "certificate_authorities"
    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        ForeignKeyConstraint(
            ["tenant_id", "issuer_id"], ["certificate_authorities.tenant_id", "certificate_authorities.id"]
        ),
        Index("ix_certificate_authorities_tenant_id_subject", "tenant_id", "subject"),
    )

    # root | issuing | external
    kind: Mapped[str]
    name: Mapped[str]
    # OpenSSL's one-line form, as radiusd reports an issuer.
    subject: Mapped[str]
    certificate_der: Mapped[bytes]
    # Cells may not read this column (grants of migration 0001).
    key_sealed: Mapped[bytes | None]
    # Subject key identifier (RFC 5280 4.2.1.2).
    key_id: Mapped[bytes]
    # active | retired | revoked
    status: Mapped[str] = mapped_column(default="active")
    not_before: Mapped[datetime]
    not_after: Mapped[datetime]
    issuer_id: Mapped[UUID | None]


class Certificate(UuidKey, TenantOwned, CreatedAt, Base):
    __tablename__ = "certificates"
    __table_args__ = (
        UniqueConstraint("tenant_id", "serial"),
        UniqueConstraint("tenant_id", "id"),
        Index("ix_certificates_tenant_id_public_key_sha256", "tenant_id", "public_key_sha256"),
        ForeignKeyConstraint(
            ["tenant_id", "authority_id"], ["certificate_authorities.tenant_id", "certificate_authorities.id"]
        ),
        ForeignKeyConstraint(
            ["tenant_id", "endpoint_id"], ["endpoints.tenant_id", "endpoints.id"], ondelete="SET NULL (endpoint_id)"
        ),
        ForeignKeyConstraint(["tenant_id", "user_id"], ["users.tenant_id", "users.id"], ondelete="SET NULL (user_id)"),
    )

    authority_id: Mapped[UUID] = mapped_column(index=True)
    # Big-endian, without leading zero bytes.
    serial: Mapped[bytes]
    profile: Mapped[str]
    common_name: Mapped[str]
    subject: Mapped[str]
    # None until signed: the row is written before the signature.
    certificate_der: Mapped[bytes | None]
    # Of its SubjectPublicKeyInfo; None until signed.
    public_key_sha256: Mapped[bytes | None]
    key_sealed: Mapped[bytes | None]
    # intended | valid | suspended | revoked
    status: Mapped[str] = mapped_column(default="intended")
    revoked_at: Mapped[datetime | None]
    revocation_reason: Mapped[str] = mapped_column(default="")
    not_before: Mapped[datetime]
    not_after: Mapped[datetime]
    endpoint_id: Mapped[UUID | None] = mapped_column(index=True)
    user_id: Mapped[UUID | None] = mapped_column(index=True)
