from datetime import datetime
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Text,
    UniqueConstraint,
    func,
    literal_column,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, UpdatedAt, UuidKey
from nac.kit.db.types import HostAddress
from nac.kit.ids import MspId, TenantId


class Person(UuidKey, CreatedAt, UpdatedAt, Base):
    """An administrator. Memberships define the person's tenants and MSPs."""

    __tablename__ = "people"
    __table_args__ = (Index("ix_people_created_at_id", "created_at", "id"),)

    # In lower case.
    email: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(server_default="")
    # active | disabled
    status: Mapped[str] = mapped_column(server_default="active")
    # Hash from nac.kit.passwords; "" if the person has no password.
    password_hash: Mapped[str] = mapped_column(server_default="")


class CustomRole(UuidKey, CreatedAt, UpdatedAt, Base):
    """A named set of permissions of an MSP or a tenant."""

    __tablename__ = "custom_roles"
    __table_args__ = (
        UniqueConstraint("msp_id", "slug", name="uq_custom_roles_msp_id_slug"),
        UniqueConstraint("tenant_id", "slug", name="uq_custom_roles_tenant_id_slug"),
        UniqueConstraint("msp_id", "id", name="uq_custom_roles_msp_id_id"),
        UniqueConstraint("tenant_id", "id", name="uq_custom_roles_tenant_id_id"),
    )

    msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    slug: Mapped[str]
    name: Mapped[str]
    # Names from nac.core.access.permissions.
    permissions: Mapped[list[str]] = mapped_column(ARRAY(Text))


class Membership(UuidKey, CreatedAt, Base):
    """A person's role at an MSP, at a tenant, or at the platform if both ids are null."""

    __tablename__ = "memberships"
    __table_args__ = (
        UniqueConstraint(
            "person_id", "msp_id", "tenant_id", name="uq_memberships_person_id", postgresql_nulls_not_distinct=True
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

    person_id: Mapped[UUID] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"))
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
    __table_args__ = (Index("ix_membership_tenants_tenant_id", "tenant_id"),)

    membership_id: Mapped[UUID] = mapped_column(ForeignKey("memberships.id", ondelete="CASCADE"), primary_key=True)
    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)


class ApiToken(UuidKey, CreatedAt, Base):
    """Credential of a program. It belongs to an MSP, to a tenant, or to the platform if both ids are null."""

    __tablename__ = "api_tokens"
    __table_args__ = (
        Index("ix_api_tokens_msp_id", "msp_id", postgresql_where=text("msp_id IS NOT NULL")),
        Index("ix_api_tokens_tenant_id", "tenant_id", postgresql_where=text("tenant_id IS NOT NULL")),
        Index("ix_api_tokens_maker_id", "maker_id", postgresql_where=text("maker_id IS NOT NULL")),
        Index("ix_api_tokens_parent_id", "parent_id", postgresql_where=text("parent_id IS NOT NULL")),
        Index("ix_api_tokens_via_msp_id", "via_msp_id", postgresql_where=text("via_msp_id IS NOT NULL")),
        Index("ix_api_tokens_via_tenant_id", "via_tenant_id", postgresql_where=text("via_tenant_id IS NOT NULL")),
    )

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
    # The person responsible for the token, even if another token created it; null if created on the command line.
    maker_id: Mapped[UUID | None] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"))
    # Name in the audit log of the responsible person.
    maker: Mapped[str | None]
    # Owner of the single sign-on that the responsible person used. Only the memberships at this owner count.
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
    # The single sign-on used, if any. The sign-in is then limited to its owner's memberships.
    sign_on_id: Mapped[UUID | None] = mapped_column(ForeignKey("sign_ons.id", ondelete="CASCADE"))
    via_msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    via_tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
