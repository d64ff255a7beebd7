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

from nac.db.base import Base, CreatedAt, UpdatedAt, UuidKey
from nac.db.types import HostAddress
from nac.ids import MspId, TenantId


class Person(UuidKey, CreatedAt, UpdatedAt, Base):
    """Who administers. Of no tenant: memberships say where."""

    __tablename__ = "people"
    __table_args__ = (Index("ix_people_created_at_id", "created_at", "id"),)

    # In lower case.
    email: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(server_default="")
    # active | disabled
    status: Mapped[str] = mapped_column(server_default="active")
    # As nac.users.passwords makes it; "" for none.
    password_hash: Mapped[str] = mapped_column(server_default="")


class CustomRole(UuidKey, CreatedAt, UpdatedAt, Base):
    """Permissions under a name, of an MSP or a tenant."""

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
    # As nac.accounts.permissions names them.
    permissions: Mapped[list[str]] = mapped_column(ARRAY(Text))


class Membership(UuidKey, CreatedAt, Base):
    """A person's role on an MSP, on a tenant, or, with neither, on the platform."""

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
    # A slug of nac.accounts.roles, or else a role of the owner's own.
    role: Mapped[str | None]
    custom_role_id: Mapped[UUID | None]
    # Of an MSP's tenants those of MembershipTenant alone.
    has_chosen: Mapped[bool] = mapped_column(server_default=text("false"))
    created_by: Mapped[str]
    # When the person first came in by it; None where that is yet to be.
    accepted_at: Mapped[datetime | None]


class MembershipTenant(Base):
    __tablename__ = "membership_tenants"
    __table_args__ = (Index("ix_membership_tenants_tenant_id", "tenant_id"),)

    membership_id: Mapped[UUID] = mapped_column(ForeignKey("memberships.id", ondelete="CASCADE"), primary_key=True)
    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)


class ApiToken(UuidKey, CreatedAt, Base):
    """What a program shows; of an MSP, of a tenant, or, with neither, of the platform."""

    __tablename__ = "api_tokens"
    __table_args__ = (
        Index("ix_api_tokens_msp_id", "msp_id", postgresql_where=text("msp_id IS NOT NULL")),
        Index("ix_api_tokens_tenant_id", "tenant_id", postgresql_where=text("tenant_id IS NOT NULL")),
        Index("ix_api_tokens_maker_id", "maker_id", postgresql_where=text("maker_id IS NOT NULL")),
        Index("ix_api_tokens_parent_id", "parent_id", postgresql_where=text("parent_id IS NOT NULL")),
        Index("ix_api_tokens_via_msp_id", "via_msp_id", postgresql_where=text("via_msp_id IS NOT NULL")),
        Index("ix_api_tokens_via_tenant_id", "via_tenant_id", postgresql_where=text("via_tenant_id IS NOT NULL")),
    )

    # By which it is found; no secret.
    public_id: Mapped[str] = mapped_column(unique=True)
    secret_sha256: Mapped[bytes]
    name: Mapped[str]
    msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    permissions: Mapped[list[str]] = mapped_column(ARRAY(Text))
    expires_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
    # To the minute.
    last_used_at: Mapped[datetime | None]
    last_used_from: Mapped[str | None] = mapped_column(HostAddress())
    created_by: Mapped[str]
    # The person who answers for it, also where another token has made it; None for one of the command line.
    maker_id: Mapped[UUID | None] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"))
    # As the audit log names that person.
    maker: Mapped[str | None]
    # Where an organisation's provider had named that person: only what this owner has given counts.
    via_msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    via_tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    # The token that made it.
    parent_id: Mapped[UUID | None] = mapped_column(ForeignKey("api_tokens.id", ondelete="CASCADE"))


class SignIn(UuidKey, CreatedAt, Base):
    """A browser in which a person has signed in."""

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
    # To the minute.
    last_seen_at: Mapped[datetime] = mapped_column(server_default=func.now())
    # When the person last proved who it is, in this browser.
    confirmed_at: Mapped[datetime] = mapped_column(server_default=func.now())
    # By whose provider, where it was by one: then it holds in that owner's memberships alone.
    sign_on_id: Mapped[UUID | None] = mapped_column(ForeignKey("sign_ons.id", ondelete="CASCADE"))
    via_msp_id: Mapped[MspId | None] = mapped_column(ForeignKey("msps.id", ondelete="CASCADE"))
    via_tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
