from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    Computed,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, TenantOwned, UuidKey
from nac.kit.db.declarations import FileContent, FileExclusion, Purge, Reference, report_conflict, seal_with
from nac.kit.ids import TenantId
from nac.kit.permissions import Effect, Permission


class CertificateAuthority(UuidKey, TenantOwned, Base):
    __tablename__ = "certificate_authorities"
    __table_args__ = (
        UniqueConstraint("tenant_id", "id"),
        ForeignKeyConstraint(
            ["tenant_id", "issuer_id"], ["certificate_authorities.tenant_id", "certificate_authorities.id"]
        ),
        Index("ix_certificate_authorities_tenant_id_subject", "tenant_id", "subject"),
        *(
            Index(f"ix_certificate_authorities_tenant_id_{name}", "tenant_id", name, "id")
            for name in ("not_before", "not_after", "name")
        ),
    )
    reference = Reference("authority", "an authority")
    plural = "authorities"
    tenant_file = FileContent(
        Permission.CERTIFICATE_READ, (Permission.AUTHORITY_MANAGE,), needs_key=True, keyless={"kind": "external"}
    )
    effects = (Effect.TRUST, Effect.TENANTS)

    # root | issuing | external
    kind: Mapped[str]
    name: Mapped[str]
    # Name of the authority in OpenSSL's one-line format, which radiusd uses, too.
    subject: Mapped[str]
    certificate_der: Mapped[bytes]
    # Cells cannot read this column (grants in `migrations/sql/schema/certificate.sql`).
    key_sealed: Mapped[bytes | None] = mapped_column(info=seal_with("authority:{id}"))
    # Subject key identifier (RFC 5280 4.2.1.2).
    key_id: Mapped[bytes]
    # active | retired | revoked
    status: Mapped[str] = mapped_column(default="active")
    not_before: Mapped[datetime]
    not_after: Mapped[datetime]
    issuer_id: Mapped[UUID | None]
    revoked_at: Mapped[datetime | None]
    # A name of pki.crl.REVOCATION_REASONS; "" if not revoked.
    revocation_reason: Mapped[str] = mapped_column(default="")
    # sealed | pkcs11
    key_store: Mapped[str] = mapped_column(default="sealed")
    # Cross-certificate that the previous root issued to this root (RFC 4210 4.4, "new with old").
    cross_der: Mapped[bytes | None]


class Certificate(UuidKey, TenantOwned, CreatedAt, Base):
    __tablename__ = "certificates"
    __table_args__ = (
        UniqueConstraint(
            "tenant_id",
            "serial",
            info=report_conflict("serial", "A certificate with this serial number already exists."),
        ),
        UniqueConstraint("tenant_id", "id"),
        Index("ix_certificates_tenant_id_public_key_sha256", "tenant_id", "public_key_sha256"),
        ForeignKeyConstraint(
            ["tenant_id", "authority_id"], ["certificate_authorities.tenant_id", "certificate_authorities.id"]
        ),
        ForeignKeyConstraint(
            ["tenant_id", "endpoint_id"], ["endpoints.tenant_id", "endpoints.id"], ondelete="SET NULL (endpoint_id)"
        ),
        ForeignKeyConstraint(["tenant_id", "user_id"], ["users.tenant_id", "users.id"], ondelete="SET NULL (user_id)"),
        ForeignKeyConstraint(
            ["tenant_id", "renews_id"],
            ["certificates.tenant_id", "certificates.id"],
            ondelete="SET NULL (renews_id)",
            deferrable=True,
            initially="IMMEDIATE",
        ),
        ForeignKeyConstraint(
            ["tenant_id", "secret_id"],
            ["enrolment_secrets.tenant_id", "enrolment_secrets.id"],
            ondelete="SET NULL (secret_id)",
        ),
        Index("ix_certificates_authority_id_serial", "authority_id", "serial"),
        Index(
            "ix_certificates_revoked",
            "authority_id",
            postgresql_where=text("status IN ('abandoned', 'suspended', 'revoked')"),
        ),
        Index(
            "ix_certificates_lately_refused",
            "tenant_id",
            "revoked_at",
            postgresql_where=text("status IN ('suspended', 'revoked')"),
        ),
        # Admit queries this index when it issues certificates.
        Index(
            "ix_certificates_of_servers",
            "tenant_id",
            "not_after",
            postgresql_where=text("profile = 'eap-server'"),
        ),
        Index("ix_certificates_intended", "tenant_id", "created_at", postgresql_where=text("status = 'intended'")),
        Index(
            "ix_certificates_tenant_id_common_name",
            "tenant_id",
            "common_name",
            postgresql_ops={"common_name": "text_pattern_ops"},
        ),
        Index(
            "ix_certificates_tenant_id_common_name_prefix",
            "tenant_id",
            "common_name_key",
            postgresql_ops={"common_name_key": "text_pattern_ops"},
        ),
        *(
            Index(f"ix_certificates_tenant_id_{name}_serial", "tenant_id", name, "serial")
            for name in ("not_before", "not_after", "common_name_key")
        ),
    )
    reference = Reference("serial", "a certificate")
    purge = Purge.BATCHES
    tenant_file = FileContent(
        Permission.CERTIFICATE_READ, (Permission.CERTIFICATE_ISSUE,), needs_key=True, reset={"secret_id": None}
    )
    effects = (Effect.CREDENTIALS, Effect.TRUST, Effect.REJECTION, Effect.TENANTS)

    authority_id: Mapped[UUID]
    # Big-endian, without leading zero bytes.
    serial: Mapped[bytes]
    profile: Mapped[str]
    common_name: Mapped[str]
    common_name_key: Mapped[str] = mapped_column(Computed("lower(common_name)", persisted=True))
    subject: Mapped[str]
    # Null until Admit has signed the certificate, because Admit stores the row first.
    certificate_der: Mapped[bytes | None]
    # Hash of SubjectPublicKeyInfo; null if the key is not known yet.
    public_key_sha256: Mapped[bytes | None]
    key_sealed: Mapped[bytes | None] = mapped_column(info=seal_with("certificate:{id}"))
    # intended | abandoned | valid | suspended | revoked
    status: Mapped[str] = mapped_column(default="intended")
    revoked_at: Mapped[datetime | None]
    revocation_reason: Mapped[str] = mapped_column(default="")
    not_before: Mapped[datetime]
    not_after: Mapped[datetime]
    endpoint_id: Mapped[UUID | None] = mapped_column(index=True)
    user_id: Mapped[UUID | None] = mapped_column(index=True)
    # The certificate that this certificate renews.
    renews_id: Mapped[UUID | None] = mapped_column(index=True)
    # The enrolment secret that the device used to get this certificate.
    secret_id: Mapped[UUID | None] = mapped_column(index=True)
    # Time from which Admit presents a server certificate; null if Admit does not present the certificate.
    present_from: Mapped[datetime | None]


class AuthorityIntent(UuidKey, TenantOwned, CreatedAt, Base):
    """The record of an authority's certificate that Admit will sign. `id` becomes the id of the authority."""

    __tablename__ = "authority_intents"
    __table_args__ = (
        Index("ix_authority_intents_tenant_id", "tenant_id"),
        Index(
            "ix_authority_intents_open",
            "tenant_id",
            "created_at",
            postgresql_where=text("signed_at IS NULL AND abandoned_at IS NULL"),
        ),
    )
    tenant_file = FileExclusion("in progress")
    effects = ()

    # root | issuing | cross
    kind: Mapped[str]
    subject: Mapped[str]
    serial: Mapped[bytes]
    issuer_id: Mapped[UUID | None]
    key_store: Mapped[str]
    # Requested names of the first server certificate that the authority issues.
    server_names: Mapped[list[str]] = mapped_column(ARRAY(Text), default=list, server_default="{}")
    signed_at: Mapped[datetime | None]
    # Time when Admit detected that the certificate was never signed, or was lost.
    abandoned_at: Mapped[datetime | None]
    # Revocation of a cross-certificate. Other revocations are in the row of the authority.
    revoked_at: Mapped[datetime | None]
    revocation_reason: Mapped[str] = mapped_column(default="")


class CertificateSettings(Base):
    """A tenant's settings for certificates. Defaults apply to a tenant without a row."""

    __tablename__ = "certificate_settings"
    __table_args__ = (
        PrimaryKeyConstraint(info=report_conflict("tenant", "Another person has just changed these settings.")),
    )
    tenant_file = FileContent(Permission.CERTIFICATE_READ, (Permission.AUTHORITY_MANAGE,))

    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)
    # Settings by profile, such as {"validity_days": 365, "key": "rsa-2048"}.
    profiles: Mapped[dict[str, Any]] = mapped_column(default=dict)
    # "" for the platform's default.
    key_store: Mapped[Literal["", "sealed", "pkcs11"]] = mapped_column(Text(), default="")


class ExpiryWarning(Base):
    __tablename__ = "expiry_warnings"
    tenant_file = FileExclusion("belongs to the logs")

    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)
    # Id of the authority or certificate that the warning is about.
    subject_id: Mapped[UUID] = mapped_column(primary_key=True)
    days: Mapped[int] = mapped_column(primary_key=True)
    warned_at: Mapped[datetime] = mapped_column(server_default=func.now())
