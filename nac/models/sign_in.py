"""Single sign-on, second factors, sign-in rules, and records of sign-ins."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    Identity,
    Index,
    Integer,
    PrimaryKeyConstraint,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import INET
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, HostAddress, UpdatedAt, UuidKey
from nac.kit.db.declarations import FileExclusion, Reference, describe_reference, report_conflict
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import Effect


class SignOn(UuidKey, CreatedAt, UpdatedAt, Base):
    """The OpenID Connect provider that an MSP or a tenant uses for single sign-on."""

    __tablename__ = "sign_ons"
    __table_args__ = (
        UniqueConstraint(
            "msp_id",
            "tenant_id",
            postgresql_nulls_not_distinct=True,
            info=report_conflict("issuer", "Another person has just set up single sign-on."),
        ),
    )
    reference = Reference("sign_on", "a single sign-on")
    tenant_file = FileExclusion("people do not belong to a tenant")
    effects = (Effect.SIGN_IN,)

    msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    # In the format of nac.accounts.sign_ons.settings.
    settings: Mapped[dict[str, Any]]
    secret_sealed: Mapped[bytes]


class SignOnLink(CreatedAt, Base):
    """A user id (subject) of an OpenID Connect provider, and the person to whom it belongs."""

    __tablename__ = "sign_on_links"
    __table_args__ = (
        PrimaryKeyConstraint(
            info=report_conflict("email", "This account of the provider is already linked to a person.")
        ),
        UniqueConstraint(
            "sign_on_id", "person_id", info=report_conflict("email", "This person already signs in by the provider.")
        ),
        Index("ix_sign_on_links_person_id", "person_id"),
    )

    sign_on_id: Mapped[UUID] = mapped_column(ForeignKey("sign_ons.id", ondelete="CASCADE"), primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    person_id: Mapped[UUID] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"))


class Totp(CreatedAt, Base):
    """The secret of a person's authenticator app (RFC 6238)."""

    __tablename__ = "totps"
    __table_args__ = (PrimaryKeyConstraint(info=report_conflict("code", "An authenticator app is already set up.")),)
    effects = (Effect.SIGN_IN,)

    person_id: Mapped[UUID] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"), primary_key=True)
    secret_sealed: Mapped[bytes]
    # Time step (RFC 6238 4.2) of the last used code.
    last_step: Mapped[int] = mapped_column(BigInteger(), server_default=text("0"))
    # Null until the person has entered a first code of the app.
    confirmed_at: Mapped[datetime | None]


class Passkey(UuidKey, CreatedAt, Base):
    """A WebAuthn credential of a person."""

    __tablename__ = "passkeys"
    __table_args__ = (
        UniqueConstraint(
            "credential_id",
            info=report_conflict("credential", "This passkey is already in use.", remedy="Create another passkey."),
        ),
        Index("ix_passkeys_person_id", "person_id"),
    )
    effects = (Effect.SIGN_IN,)

    person_id: Mapped[UUID] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"))
    # Id that the passkey's device chose, in base64url.
    credential_id: Mapped[str]
    # Public key in COSE format.
    public_key: Mapped[bytes]
    sign_count: Mapped[int] = mapped_column(BigInteger())
    name: Mapped[str]
    backed_up: Mapped[bool]
    last_used_at: Mapped[datetime | None]


class RecoveryCode(UuidKey, CreatedAt, Base):
    """A single-use code that replaces a lost second factor."""

    __tablename__ = "recovery_codes"
    __table_args__ = (UniqueConstraint("person_id", "code_sha256", name="uq_recovery_codes_person_id_code_sha256"),)
    effects = (Effect.SIGN_IN,)

    person_id: Mapped[UUID] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"))
    code_sha256: Mapped[bytes]
    used_at: Mapped[datetime | None]


class PasswordLink(UuidKey, CreatedAt, Base):
    """A single-use link with which a person sets a password."""

    __tablename__ = "password_links"
    __table_args__ = (
        Index("ix_password_links_person_id", "person_id"),
        Index("ix_password_links_expires_at", "expires_at"),
    )
    effects = (Effect.SIGN_IN,)

    public_id: Mapped[str] = mapped_column(unique=True)
    secret_sha256: Mapped[bytes]
    person_id: Mapped[UUID] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"))
    created_by: Mapped[str]
    expires_at: Mapped[datetime]
    used_at: Mapped[datetime | None]


class SignInRule(UuidKey, Base):
    """Sign-in requirements of an MSP, of a tenant, or of the platform if both ids are null."""

    __tablename__ = "sign_in_rules"
    __table_args__ = (
        UniqueConstraint(
            "msp_id",
            "tenant_id",
            postgresql_nulls_not_distinct=True,
            info=report_conflict("two_factors", "Another person has just set the rules."),
        ),
        Index(
            "ix_sign_in_rules_local_person_id",
            "local_person_id",
            postgresql_where=text("local_person_id IS NOT NULL"),
        ),
    )
    tenant_file = FileExclusion("people do not belong to a tenant")
    effects = (Effect.SIGN_IN,)

    msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    two_factors: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    # Whether members must use the single sign-on of the MSP or tenant.
    sign_on_only: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    # The only person who can sign in without single sign-on. This person needs two factors.
    local_person_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("people.id", ondelete="SET NULL", info=describe_reference("local_account", "a person"))
    )
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now(), onupdate=func.now())


class SignInAttempt(Base):
    """Number of sign-in attempts. Only functions of the database can access the table."""

    __tablename__ = "sign_in_attempts"
    __table_args__ = (Index("ix_sign_in_attempts_last_at", "last_at"),)

    key: Mapped[bytes] = mapped_column(primary_key=True)
    count: Mapped[int] = mapped_column(Integer(), server_default=text("0"))
    last_at: Mapped[datetime]
    blocked_until: Mapped[datetime | None]


class SignInFailure(Base):
    """Number of failed sign-ins in an hour, by account, reason and source. A database function counts the failures."""

    __tablename__ = "sign_in_failures"
    __table_args__ = (
        UniqueConstraint(
            "subject_id",
            "hour",
            "reason",
            "source",
            name="uq_sign_in_failures_subject_id",
            postgresql_nulls_not_distinct=True,
        ),
        Index("ix_sign_in_failures_audit_due_at", "audit_due_at", postgresql_where=text("audit_due_at IS NOT NULL")),
        Index("ix_sign_in_failures_last_at", "last_at"),
    )

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    # Id of the person or of the single sign-on; all zeros if no account has the address.
    subject_id: Mapped[UUID]
    hour: Mapped[datetime]
    # Reason from nac.accounts.sign_in.failures.
    reason: Mapped[str]
    # Address range that counts as one source. If there are too many sources, null stands for all further sources.
    source: Mapped[str | None] = mapped_column(INET())
    count: Mapped[int] = mapped_column(Integer(), server_default=text("0"))
    first_at: Mapped[datetime]
    last_at: Mapped[datetime]
    # Address and browser of the last attempt.
    address: Mapped[str | None] = mapped_column(HostAddress())
    request_id: Mapped[str | None]
    user_agent: Mapped[str] = mapped_column(server_default="")
    # Number of failures in the audit log, time when Admit last added failures, and time to add further failures.
    audited: Mapped[int] = mapped_column(Integer(), server_default=text("0"))
    audited_at: Mapped[datetime | None]
    audit_due_at: Mapped[datetime | None]


class SpentChallenge(Base):
    """A used single-use value, such as a challenge. Only a function of the database can access the table."""

    __tablename__ = "spent_challenges"
    __table_args__ = (Index("ix_spent_challenges_expires_at", "expires_at"),)

    digest: Mapped[bytes] = mapped_column(primary_key=True)
    expires_at: Mapped[datetime]
