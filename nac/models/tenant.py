"""MSPs (managed service providers) and their tenants."""

from datetime import datetime
from typing import Literal
from uuid import UUID, uuid4

from sqlalchemy import (
    ARRAY,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    SmallInteger,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from nac.cellformat.methods import DEFAULT_METHODS, DEFAULT_TLS_VERSIONS
from nac.kit.db.base import Base, CreatedAt, TenantOwned, UpdatedAt, UuidKey
from nac.kit.db.declarations import EXPORTED, FileExclusion, Reference, report_conflict, report_taken
from nac.kit.ids import CellId, MspId, TenantId, TenantNumber
from nac.kit.permissions import Effect

MspStatus = Literal["active", "suspended"]


class Msp(CreatedAt, Base):
    """A managed service provider, which runs tenants for its customers."""

    __tablename__ = "msps"
    __table_args__ = (UniqueConstraint("slug", info=report_taken("slug", "An MSP with this slug already exists.")),)
    reference = Reference("msp", "an MSP")
    effects = (Effect.PLATFORM,)

    id: Mapped[MspId] = mapped_column(primary_key=True, default=uuid4)
    slug: Mapped[str]
    name: Mapped[str]
    status: Mapped[str] = mapped_column(default="active", server_default=text("'active'"))
    # Number of days in which a deleted tenant can be restored.
    deletion_days: Mapped[int] = mapped_column(default=30, server_default=text("30"))


TenantStatus = Literal["active", "suspended", "deleting"]
StatusFailureMode = Literal["soft", "hard"]


class Tenant(CreatedAt, UpdatedAt, Base):
    __tablename__ = "tenants"
    __table_args__ = (
        UniqueConstraint("slug", info=report_taken("slug", "A tenant with this slug already exists.")),
        # use_alter: tenants and sites refer to each other.
        ForeignKeyConstraint(
            ["id", "default_site_id"],
            ["sites.tenant_id", "sites.id"],
            name="fk_tenants_id_default_site_id",
            use_alter=True,
        ),
        CheckConstraint("suspension_level BETWEEN 1 AND 3", name="suspension_level"),
        Index("ix_tenants_purge_at", "purge_at", postgresql_where=text("purge_at IS NOT NULL")),
    )
    reference = Reference("tenant", "a tenant")
    effects = (Effect.TRUST, Effect.REJECTION, Effect.TENANTS)

    id: Mapped[TenantId] = mapped_column(primary_key=True, default=uuid4)
    number: Mapped[TenantNumber] = mapped_column(Identity(always=True), unique=True)
    msp_id: Mapped[MspId] = mapped_column(ForeignKey("msps.id"), index=True)
    slug: Mapped[str]
    name: Mapped[str] = mapped_column(info=EXPORTED)
    status: Mapped[str] = mapped_column(default="active")
    # For a suspended tenant: permission level of the actor who suspended it (nac.kit.permissions.PermissionLevel).
    suspension_level: Mapped[int | None] = mapped_column(SmallInteger)
    # Whether the tenant was suspended together with its MSP. Such a tenant is resumed together with the MSP.
    suspended_with_msp: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    # Time when Admit purges all data of a deleted tenant; null for other tenants.
    purge_at: Mapped[datetime | None]
    default_site_id: Mapped[UUID | None]
    failure_limit: Mapped[int] = mapped_column(default=200, info=EXPORTED)
    failure_window_seconds: Mapped[int] = mapped_column(default=60, info=EXPORTED)
    # Number of wrong passwords for a user name within `password_failure_window_seconds`. After this number, Admit
    # rejects logins with the name, without checking passwords, until the end of this time.
    password_failure_limit: Mapped[int] = mapped_column(default=20, server_default=text("20"), info=EXPORTED)
    password_failure_window_seconds: Mapped[int] = mapped_column(default=900, server_default=text("900"), info=EXPORTED)
    # Number of days whose requests Admit replays before a policy is published; null for no replay.
    replay_days: Mapped[int | None] = mapped_column(info=EXPORTED)
    # Whether devices can renew a certificate with the same key.
    renewal_keeps_key: Mapped[bool] = mapped_column(default=False, info=EXPORTED)
    # Realms and NetBIOS domains, in lower case, that Admit removes from user names (nac.tenancy.tenants.repository).
    realms: Mapped[list[str]] = mapped_column(ARRAY(Text), default=list, server_default=text("'{}'"), info=EXPORTED)
    # Allowed authentication methods: names from nac.cellformat.methods.
    methods: Mapped[list[str]] = mapped_column(ARRAY(Text), default=lambda: list(DEFAULT_METHODS), info=EXPORTED)
    tls_versions: Mapped[list[str]] = mapped_column(
        ARRAY(Text), default=lambda: list(DEFAULT_TLS_VERSIONS), info=EXPORTED
    )
    # Whether the tenant ever trusted an external authority. Never reset, because radiusd may cache the authority.
    trusts_external: Mapped[bool] = mapped_column(default=False, info=EXPORTED)
    # Incremented when the agent must replace radiusd after a change of trust. OpenSSL caches removed authorities, and
    # only one authority per name.
    trust_generation: Mapped[int] = mapped_column(default=0)
    # External certificates without a current status: `soft` admits them, `hard` rejects them.
    status_failure: Mapped[str] = mapped_column(default="soft", info=EXPORTED)
    # Session-Timeout in seconds for NASes behind NAT, which CoA requests cannot reach; 0 for no Session-Timeout.
    nat_session_seconds: Mapped[int] = mapped_column(default=0, server_default=text("0"), info=EXPORTED)
    # A session counts as ended after `silent_reports` missed Interim-Updates. If its NAS sends no Interim-Updates, the
    # session counts as ended after `silent_days` days without accounting.
    silent_reports: Mapped[int] = mapped_column(default=3, server_default=text("3"), info=EXPORTED)
    silent_days: Mapped[int] = mapped_column(default=7, server_default=text("7"), info=EXPORTED)
    # Key to compute Chargeable-User-Identity (RFC 4372), so that all cells send the same value.
    cui_key: Mapped[UUID] = mapped_column(server_default=func.gen_random_uuid())


class PurgedTenant(Base):
    """A purged tenant whose logs are not deleted yet. A trigger writes the row."""

    __tablename__ = "purged_tenants"
    tenant_file = FileExclusion("only of deleted tenants")

    tenant_id: Mapped[TenantId] = mapped_column(primary_key=True)
    purged_at: Mapped[datetime] = mapped_column(server_default=func.now())


class TenantMove(UuidKey, TenantOwned, CreatedAt, Base):
    """A tenant's move to another cell, and its state."""

    __tablename__ = "tenant_moves"
    __table_args__ = (
        Index(
            "ix_tenant_moves_open",
            "tenant_id",
            unique=True,
            postgresql_where=text("state = ANY (ARRAY['prepared'::text, 'switched'::text])"),
            info=report_conflict("tenant", "This tenant is already being moved."),
        ),
        Index("ix_tenant_moves_tenant_id", "tenant_id", "created_at"),
    )
    tenant_file = FileExclusion("belongs to its cell")
    effects = (Effect.PLATFORM,)

    # prepared | switched | finished | cancelled
    state: Mapped[str] = mapped_column(default="prepared", server_default="prepared")
    from_cell_id: Mapped[CellId]
    from_slot_id: Mapped[UUID]
    to_cell_id: Mapped[CellId]
    to_slot_id: Mapped[UUID]
    created_by: Mapped[str]
    switched_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
