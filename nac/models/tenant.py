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
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from nac.db.base import Base, CreatedAt, TenantOwned, UpdatedAt, UuidKey
from nac.ids import CellId, MspId, TenantId, TenantNumber
from nac.methods import DEFAULT_METHODS, DEFAULT_TLS_VERSIONS

TenantStatus = Literal["active", "suspended", "deleting"]
StatusFailureMode = Literal["soft", "hard"]


class Tenant(CreatedAt, UpdatedAt, Base):
    __tablename__ = "tenants"
    __table_args__ = (
        # use_alter: a tenant names its default site, a site belongs to its tenant.
        ForeignKeyConstraint(
            ["id", "default_site_id"],
            ["sites.tenant_id", "sites.id"],
            name="fk_tenants_id_default_site_id",
            use_alter=True,
        ),
        CheckConstraint("suspension_level BETWEEN 1 AND 3", name="suspension_level"),
        Index("ix_tenants_purge_at", "purge_at", postgresql_where=text("purge_at IS NOT NULL")),
    )

    id: Mapped[TenantId] = mapped_column(primary_key=True, default=uuid4)
    number: Mapped[TenantNumber] = mapped_column(Identity(always=True), unique=True)
    msp_id: Mapped[MspId] = mapped_column(ForeignKey("msps.id"), index=True)
    slug: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    status: Mapped[str] = mapped_column(default="active")
    # Of one that is suspended: from how high up (nac.accounts.permissions.Level).
    suspension_level: Mapped[int | None] = mapped_column(SmallInteger)
    # With its MSP, and to be resumed with it.
    suspended_with_msp: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    # Of one that is being deleted: when all of it goes.
    purge_at: Mapped[datetime | None]
    default_site_id: Mapped[UUID | None]
    failure_limit: Mapped[int] = mapped_column(default=200)
    failure_window_seconds: Mapped[int] = mapped_column(default=60)
    # Wrong passwords per user name within the window after which that user's logins are rejected unheard.
    password_failure_limit: Mapped[int] = mapped_column(default=20, server_default=text("20"))
    password_failure_window_seconds: Mapped[int] = mapped_column(default=900, server_default=text("900"))
    # Publishing a policy replays the requests of so many days first; None does not.
    replay_days: Mapped[int | None]
    # Whether a renewed certificate may hold the key of the one before it.
    renewal_keeps_key: Mapped[bool] = mapped_column(default=False)
    # Realms and NetBIOS domains that are taken off user names (nac.tenants.realms), in lower case.
    realms: Mapped[list[str]] = mapped_column(ARRAY(Text), default=list, server_default=text("'{}'"))
    # As nac.methods names them.
    methods: Mapped[list[str]] = mapped_column(ARRAY(Text), default=lambda: list(DEFAULT_METHODS))
    tls_versions: Mapped[list[str]] = mapped_column(ARRAY(Text), default=lambda: list(DEFAULT_TLS_VERSIONS))
    # Ever: radiusd may remember an authority that was removed.
    trusts_external: Mapped[bool] = mapped_column(default=False)
    # Goes up where radiusd must be exchanged to hold what is trusted: OpenSSL forgets no authority, and looks for no
    # other of a name that it holds.
    trust_generation: Mapped[int] = mapped_column(default=0)
    # Certificates of external authorities of which no fresh status is known: soft admits them, hard does not.
    status_failure: Mapped[str] = mapped_column(default="soft")
    # Session-Timeout at NASes behind NAT, to which no request about a session can be sent; 0 for none.
    nat_session_seconds: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    # A session that was not heard of for so many of its reports, or without any for so many days, has ended.
    silent_reports: Mapped[int] = mapped_column(default=3, server_default=text("3"))
    silent_days: Mapped[int] = mapped_column(default=7, server_default=text("7"))
    # Makes Chargeable-User-Identities, which are to be the same in each cell.
    cui_key: Mapped[UUID] = mapped_column(server_default=func.gen_random_uuid())


class PurgedTenant(Base):
    """A tenant that is gone and whose logs are still to be deleted; a trigger writes it."""

    __tablename__ = "purged_tenants"

    tenant_id: Mapped[TenantId] = mapped_column(primary_key=True)
    purged_at: Mapped[datetime] = mapped_column(server_default=func.now())


class TenantMove(UuidKey, TenantOwned, CreatedAt, Base):
    """That a tenant goes to another cell, and how far that is."""

    __tablename__ = "tenant_moves"
    __table_args__ = (
        Index(
            "ix_tenant_moves_open",
            "tenant_id",
            unique=True,
            postgresql_where=text("state = ANY (ARRAY['prepared'::text, 'switched'::text])"),
        ),
        Index("ix_tenant_moves_tenant_id", "tenant_id", "created_at"),
    )

    # prepared | switched | finished | cancelled
    state: Mapped[str] = mapped_column(default="prepared", server_default="prepared")
    from_cell_id: Mapped[CellId]
    from_slot_id: Mapped[UUID]
    to_cell_id: Mapped[CellId]
    to_slot_id: Mapped[UUID]
    created_by: Mapped[str]
    switched_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
