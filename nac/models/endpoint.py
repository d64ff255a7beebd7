from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKeyConstraint, Identity, Index, PrimaryKeyConstraint, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, Mac, TenantOwned, UpdatedAt, UuidKey
from nac.kit.db.declarations import (
    FileContent,
    FileExclusion,
    Purge,
    Reference,
    describe_reference,
    report_conflict,
    report_taken,
    seal_with,
)
from nac.kit.ids import TenantId
from nac.kit.permissions import Effect, Permission

# discovered: not classified yet. ignored: a person removed the device from the inbox. To policies, discovered and
# ignored devices are unknown devices.
EndpointStatus = Literal["active", "blocked", "discovered", "ignored"]


class Endpoint(UuidKey, TenantOwned, CreatedAt, UpdatedAt, Base):
    """A device, identified by its MAC address."""

    __tablename__ = "endpoints"
    __table_args__ = (
        UniqueConstraint(
            "tenant_id", "mac", info=report_conflict("mac", "An endpoint with this address already exists.")
        ),
        UniqueConstraint("tenant_id", "id"),
        Index("ix_endpoints_discovered", "tenant_id", "mac", postgresql_where=text("status = 'discovered'")),
        Index("ix_endpoints_tenant_id_created_at_mac", "tenant_id", "created_at", "mac"),
        Index("ix_endpoints_tenant_id_name_mac", "tenant_id", "name", "mac"),
        Index(
            "ix_endpoints_name_trigrams",
            "name",
            postgresql_using="gin",
            postgresql_ops={"name": "extensions.gin_trgm_ops"},
            postgresql_where=text("name <> ''"),
        ),
    )
    reference = Reference("endpoint", "an endpoint")
    purge = Purge.BATCHES
    tenant_file = FileContent(Permission.ENDPOINT_READ, (Permission.ENDPOINT_MANAGE,))
    effects = (Effect.FACTS, Effect.CREDENTIALS, Effect.REJECTION)

    mac: Mapped[str] = mapped_column(Mac())
    name: Mapped[str] = mapped_column(default="")
    status: Mapped[str] = mapped_column(default="active")
    valid_until: Mapped[datetime | None]
    attributes: Mapped[dict[str, Any]] = mapped_column(default=dict)
    owner: Mapped[str] = mapped_column(default="")
    notes: Mapped[str] = mapped_column(default="")
    # The worker sets the next columns (nac.inventory.endpoints.enrichment).
    first_seen_at: Mapped[datetime | None]
    vendor: Mapped[str] = mapped_column(default="")
    found_profile: Mapped[str] = mapped_column(default="")
    # Confidence in the profile, from 0 to 100.
    found_confidence: Mapped[int] = mapped_column(default=0)
    # List of nac.inventory.profiling.classifier.ProfileReason, one for each clue.
    found_why: Mapped[list[Any]] = mapped_column(default=list)
    os: Mapped[str] = mapped_column(default="")
    model: Mapped[str] = mapped_column(default="")
    # Profile that a person set, which overrides `found_profile`; "" if no person set a profile.
    set_profile: Mapped[str] = mapped_column(default="")
    # Posture by name, each with `value`, `source`, `at` and `until` (nac.inventory.endpoints.posture).
    posture: Mapped[dict[str, Any]] = mapped_column(default=dict)
    psk_sealed: Mapped[bytes | None] = mapped_column(info=seal_with("endpoint-psk:{id}"))

    @property
    def profile(self) -> str:
        return self.set_profile or self.found_profile

    @property
    def profile_confidence(self) -> int:
        return 100 if self.set_profile else self.found_confidence


class EndpointGroup(UuidKey, TenantOwned, Base):
    __tablename__ = "endpoint_groups"
    __table_args__ = (
        UniqueConstraint("tenant_id", "name", info=report_taken("name", "A group with this name already exists.")),
        UniqueConstraint("tenant_id", "id"),
    )
    reference = Reference("groups", "a group")
    tenant_file = FileContent(Permission.ENDPOINT_READ, (Permission.ENDPOINT_MANAGE,))
    effects = (Effect.FACTS, Effect.CREDENTIALS, Effect.REJECTION)

    # Policies and replica records contain the name, so Admit renames only groups that no policy uses.
    name: Mapped[str]
    # Condition by which the worker selects members; null if people add members.
    rule: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    # MAC address of the last endpoint that the worker evaluated by a new rule; null after all endpoints.
    rule_cursor: Mapped[str | None] = mapped_column(Mac())
    psk_sealed: Mapped[bytes | None] = mapped_column(info=seal_with("endpoint-group-psk:{id}"))


class EndpointGroupMember(TenantOwned, Base):
    __tablename__ = "endpoint_group_members"
    __table_args__ = (
        PrimaryKeyConstraint(info=report_conflict("groups", "The endpoint is already in this group.")),
        ForeignKeyConstraint(
            ["tenant_id", "endpoint_id"],
            ["endpoints.tenant_id", "endpoints.id"],
            ondelete="CASCADE",
            info=describe_reference("mac", "an endpoint"),
        ),
        ForeignKeyConstraint(
            ["tenant_id", "group_id"], ["endpoint_groups.tenant_id", "endpoint_groups.id"], ondelete="CASCADE"
        ),
    )
    purge = Purge.BATCHES
    tenant_file = FileContent(Permission.ENDPOINT_READ, (Permission.ENDPOINT_MANAGE,))
    effects = (Effect.FACTS, Effect.CREDENTIALS, Effect.REJECTION)

    endpoint_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[UUID] = mapped_column(primary_key=True, index=True)


class EndpointSighting(Base):
    """Sightings of a MAC address. Only the agent writes them, from its journal, so the table has no foreign keys."""

    __tablename__ = "endpoint_sightings"
    purge = Purge.LATE_ROWS
    tenant_file = FileExclusion("observed again on the network")
    effects = ()

    tenant_id: Mapped[TenantId] = mapped_column(primary_key=True)
    mac: Mapped[str] = mapped_column(Mac(), primary_key=True)
    first_seen_at: Mapped[datetime] = mapped_column(server_default=text("now()"))
    last_seen_at: Mapped[datetime]
    site_id: Mapped[UUID | None]
    nas_id: Mapped[UUID | None]
    nas_port: Mapped[str] = mapped_column(default="")
    ssid: Mapped[str] = mapped_column(default="")
    # Values of the last authentication. "" or null if NASes have sent only accounting.
    method: Mapped[str] = mapped_column(default="")
    identity: Mapped[str] = mapped_column(default="")
    permitted: Mapped[bool | None]
    # Number of sightings, at most one per minute.
    times: Mapped[int] = mapped_column(default=1)


class EndpointEvidence(Base):
    """Evidence from a device or its switch: the last value of each key. Only the agent writes it, from its journal."""

    __tablename__ = "endpoint_evidence"
    purge = Purge.LATE_ROWS
    tenant_file = FileExclusion("observed again on the network")
    effects = ()

    tenant_id: Mapped[TenantId] = mapped_column(primary_key=True)
    mac: Mapped[str] = mapped_column(Mac(), primary_key=True)
    # dhcp | lldp | cdp | http | radius
    source: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]
    at: Mapped[datetime]


class EndpointWork(Base):
    """Queue of endpoints for the worker. An endpoint can have several rows."""

    __tablename__ = "endpoint_work"
    __table_args__ = (Index("ix_endpoint_work_tenant_id_id", "tenant_id", "id"),)
    purge = Purge.LATE_ROWS
    tenant_file = FileExclusion("observed again on the network")
    effects = ()

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    tenant_id: Mapped[TenantId]
    mac: Mapped[str] = mapped_column(Mac())
