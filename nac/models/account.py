"""People, their roles and tokens, and mails about their accounts."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
    func,
    literal_column,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, HostAddress, UpdatedAt, UuidKey
from nac.kit.db.declarations import FileExclusion, Reference, describe_reference, report_conflict, report_taken
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import Effect


class Person(UuidKey, CreatedAt, UpdatedAt, Base):
    """An administrator. Memberships define the person's tenants and MSPs."""

    __tablename__ = "people"
    __table_args__ = (
        UniqueConstraint("email", info=report_conflict("email", "An account with this address already exists.")),
        Index("ix_people_created_at_id", "created_at", "id"),
    )
    reference = Reference("person", "a person")
    effects = (Effect.RIGHTS, Effect.SIGN_IN)

    # In lower case.
    email: Mapped[str]
    name: Mapped[str] = mapped_column(server_default="")
    # active | disabled
    status: Mapped[str] = mapped_column(server_default="active")
    # Hash from nac.kit.passwords; "" if the person has no password.
    password_hash: Mapped[str] = mapped_column(server_default="")


class CustomRole(UuidKey, CreatedAt, UpdatedAt, Base):
    """A named set of permissions of an MSP or a tenant."""

    __tablename__ = "custom_roles"
    __table_args__ = (
        UniqueConstraint("msp_id", "slug", info=report_taken("slug", "A role with this slug already exists.")),
        UniqueConstraint("tenant_id", "slug", info=report_taken("slug", "A role with this slug already exists.")),
        UniqueConstraint("msp_id", "id", name="uq_custom_roles_msp_id_id"),
        UniqueConstraint("tenant_id", "id", name="uq_custom_roles_tenant_id_id"),
    )
    reference = Reference("role", "a role")
    tenant_file = FileExclusion("people do not belong to a tenant")
    effects = (Effect.RIGHTS,)

    msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    slug: Mapped[str]
    name: Mapped[str]
    # Values of nac.kit.permissions.Permission.
    permissions: Mapped[list[str]] = mapped_column(ARRAY(Text))


class Membership(UuidKey, CreatedAt, Base):
    """A person's role at an MSP, at a tenant, or at the platform if both ids are null."""

    __tablename__ = "memberships"
    __table_args__ = (
        UniqueConstraint(
            "person_id",
            "msp_id",
            "tenant_id",
            name="uq_memberships_person_id",
            postgresql_nulls_not_distinct=True,
            info=report_conflict("email", "This person is already a member."),
        ),
        ForeignKeyConstraint(
            ["msp_id", "custom_role_id"],
            ["custom_roles.msp_id", "custom_roles.id"],
            name="fk_memberships_msp_id_custom_role_id",
        ),
        ForeignKeyConstraint(
            ["tenant_id", "custom_role_id"],
            ["custom_roles.tenant_id", "custom_roles.id"],
            name="fk_memberships_tenant_id_custom_role_id",
        ),
        Index("ix_memberships_msp_id", "msp_id", postgresql_where=text("msp_id IS NOT NULL")),
        Index("ix_memberships_tenant_id", "tenant_id", postgresql_where=text("tenant_id IS NOT NULL")),
        Index("ix_memberships_custom_role_id", "custom_role_id", postgresql_where=text("custom_role_id IS NOT NULL")),
    )
    reference = Reference("member_id", "a member")
    plural = "members"
    tenant_file = FileExclusion("people do not belong to a tenant")
    effects = (Effect.RIGHTS,)

    person_id: Mapped[UUID] = mapped_column(
        ForeignKey("people.id", ondelete="CASCADE", info=describe_reference("email", "a person"))
    )
    msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    # Slug of a built-in role in nac.accounts.roles; null for a custom role.
    role: Mapped[str | None]
    custom_role_id: Mapped[UUID | None]
    # Whether the role covers only the MSP's tenants in MembershipTenant.
    has_chosen: Mapped[bool] = mapped_column(server_default=text("false"))
    created_by: Mapped[str]
    # Time of the first sign-in that used the membership; null before.
    accepted_at: Mapped[datetime | None]


class MembershipTenant(Base):
    __tablename__ = "membership_tenants"
    __table_args__ = (
        PrimaryKeyConstraint(info=report_conflict("tenants", "Another person has just selected these tenants.")),
        Index("ix_membership_tenants_tenant_id", "tenant_id"),
    )
    tenant_file = FileExclusion("people do not belong to a tenant")
    effects = (Effect.RIGHTS,)

    membership_id: Mapped[UUID] = mapped_column(ForeignKey("memberships.id", ondelete="CASCADE"), primary_key=True)
    tenant_id: Mapped[TenantId] = mapped_column(
        ForeignKey("tenants.id", ondelete="CASCADE", info=describe_reference("tenants", "a tenant")), primary_key=True
    )


class ApiToken(UuidKey, CreatedAt, Base):
    """The credential of a program at an MSP, at a tenant, or at the platform if both ids are null."""

    __tablename__ = "api_tokens"
    __table_args__ = (
        Index("ix_api_tokens_msp_id", "msp_id", postgresql_where=text("msp_id IS NOT NULL")),
        Index("ix_api_tokens_tenant_id", "tenant_id", postgresql_where=text("tenant_id IS NOT NULL")),
        Index("ix_api_tokens_maker_id", "maker_id", postgresql_where=text("maker_id IS NOT NULL")),
        Index("ix_api_tokens_parent_id", "parent_id", postgresql_where=text("parent_id IS NOT NULL")),
        Index("ix_api_tokens_via_msp_id", "via_msp_id", postgresql_where=text("via_msp_id IS NOT NULL")),
        Index("ix_api_tokens_via_tenant_id", "via_tenant_id", postgresql_where=text("via_tenant_id IS NOT NULL")),
    )
    reference = Reference("token", "a token")
    tenant_file = FileExclusion("people do not belong to a tenant")
    effects = (Effect.RIGHTS,)

    # Public part of the token, for lookups.
    public_id: Mapped[str] = mapped_column(unique=True)
    secret_sha256: Mapped[bytes]
    name: Mapped[str]
    msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    permissions: Mapped[list[str]] = mapped_column(ARRAY(Text))
    expires_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
    # Accurate to the minute.
    last_used_at: Mapped[datetime | None]
    last_used_from: Mapped[str | None] = mapped_column(HostAddress())
    created_by: Mapped[str]
    # The person responsible for the token, even if another token created it. Null for a token from the command line.
    maker_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("people.id", ondelete="CASCADE", info=describe_reference("token", "its maker"))
    )
    # Name of the responsible person in the audit log.
    maker: Mapped[str | None]
    # MSP or tenant whose single sign-on the responsible person used, if any. In this case, only the person's
    # memberships at this MSP or tenant count for the token.
    via_msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    via_tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    # The token that created this token.
    parent_id: Mapped[UUID | None] = mapped_column(ForeignKey("api_tokens.id", ondelete="CASCADE"))


class SignIn(UuidKey, CreatedAt, Base):
    """A sign-in of a person in a browser."""

    __tablename__ = "sign_ins"
    __table_args__ = (
        Index("ix_sign_ins_person_id", "person_id", "created_at", "id"),
        Index("ix_sign_ins_last_seen_at", "last_seen_at"),
        Index("ix_sign_ins_sign_on_id", "sign_on_id", postgresql_where=text("sign_on_id IS NOT NULL")),
        *(
            Index(f"ix_sign_ins_{via}", via, "created_at", "id", postgresql_where=literal_column(via).is_not(None))
            for via in ("via_msp_id", "via_tenant_id")
        ),
    )
    effects = (Effect.SIGN_IN,)

    public_id: Mapped[str] = mapped_column(unique=True)
    secret_sha256: Mapped[bytes]
    person_id: Mapped[UUID] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"))
    factors: Mapped[list[str]] = mapped_column(ARRAY(Text))
    from_address: Mapped[str | None] = mapped_column(HostAddress())
    user_agent: Mapped[str] = mapped_column(server_default="")
    expires_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    # Accurate to the minute.
    last_seen_at: Mapped[datetime] = mapped_column(server_default=func.now())
    # When the person last authenticated in this browser.
    confirmed_at: Mapped[datetime] = mapped_column(server_default=func.now())
    # The single sign-on that the person used, if any. In this case, only memberships at the MSP or tenant of this
    # single sign-on give permissions.
    sign_on_id: Mapped[UUID | None] = mapped_column(ForeignKey("sign_ons.id", ondelete="CASCADE"))
    via_msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    via_tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))


class AccountMail(CreatedAt, Base):
    """A mail about an account, before the worker has looked up the person."""

    __tablename__ = "account_mails"
    __table_args__ = (
        Index("ix_account_mails_msp_id", "msp_id", postgresql_where=text("msp_id IS NOT NULL")),
        Index("ix_account_mails_tenant_id", "tenant_id", postgresql_where=text("tenant_id IS NOT NULL")),
    )
    tenant_file = FileExclusion("people do not belong to a tenant")
    effects = ()

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    # forgotten | invitation
    kind: Mapped[str]
    # As the visitor entered it; an account with this address may not exist.
    email: Mapped[str]
    # MSP or tenant that the person is invited to; the platform if both ids are null.
    msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    actor: Mapped[str]
    # Whether the person has signed in before with the browser that requested the mail.
    is_known: Mapped[bool] = mapped_column(server_default=text("false"))
    address: Mapped[str | None] = mapped_column(HostAddress())
    request_id: Mapped[str | None]
