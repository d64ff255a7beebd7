from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKeyConstraint, Identity, Index, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from nac.db.base import Base, CreatedAt, TenantOwned, UpdatedAt, UuidKey
from nac.db.types import Mac
from nac.ids import TenantId

# discovered: seen, and nobody has decided about it yet; ignored: looked at and left as it is. Policy knows neither.
EndpointStatus = Literal["active", "blocked", "discovered", "ignored"]


class Endpoint(UuidKey, TenantOwned, CreatedAt, UpdatedAt, Base):
    """A device, known by its MAC address."""

    __tablename__ = "endpoints"
    __table_args__ = (
        UniqueConstraint("tenant_id", "mac"),
        UniqueConstraint("tenant_id", "id"),
        Index("ix_endpoints_discovered", "tenant_id", "mac", postgresql_where=text("status = 'discovered'")),
        Index("ix_endpoints_tenant_id_created_at_mac", "tenant_id", "created_at", "mac"),
        Index("ix_endpoints_tenant_id_name_mac", "tenant_id", "name", "mac"),
    )

    mac: Mapped[str] = mapped_column(Mac())
    name: Mapped[str] = mapped_column(default="")
    status: Mapped[str] = mapped_column(default="active")
    valid_until: Mapped[datetime | None]
    attributes: Mapped[dict[str, Any]] = mapped_column(default=dict)
    owner: Mapped[str] = mapped_column(default="")
    notes: Mapped[str] = mapped_column(default="")
    # What the worker finds out (nac.endpoints.enrichment).
    first_seen_at: Mapped[datetime | None]
    vendor: Mapped[str] = mapped_column(default="")
    found_profile: Mapped[str] = mapped_column(default="")
    # 0 to 100.
    found_confidence: Mapped[int] = mapped_column(default=0)
    # What spoke for it, as nac.profiling.classifier.ProfileReason has it.
    found_why: Mapped[list[Any]] = mapped_column(default=list)
    os: Mapped[str] = mapped_column(default="")
    model: Mapped[str] = mapped_column(default="")
    # A person's word stands over what was found; "" where nobody said anything.
    set_profile: Mapped[str] = mapped_column(default="")
    # Name to {"value", "source", "at", "until"}: nac.endpoints.posture.
    posture: Mapped[dict[str, Any]] = mapped_column(default=dict)
    # Sealed for nac.endpoints.passphrases.endpoint_context.
    psk_sealed: Mapped[bytes | None]

    @property
    def profile(self) -> str:
        return self.set_profile or self.found_profile

    @property
    def profile_confidence(self) -> int:
        return 100 if self.set_profile else self.found_confidence


class EndpointGroup(UuidKey, TenantOwned, Base):
    __tablename__ = "endpoint_groups"
    __table_args__ = (UniqueConstraint("tenant_id", "name"), UniqueConstraint("tenant_id", "id"))

    # Immutable (policies and replica records hold it).
    name: Mapped[str]
    # A condition over endpoints, of which the worker makes the members; None where people do.
    rule: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    # While the rule is worked out for all: the address up to which that is done.
    rule_cursor: Mapped[str | None] = mapped_column(Mac())
    psk_sealed: Mapped[bytes | None]


class EndpointGroupMember(TenantOwned, Base):
    __tablename__ = "endpoint_group_members"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "endpoint_id"], ["endpoints.tenant_id", "endpoints.id"], ondelete="CASCADE"),
        ForeignKeyConstraint(
            ["tenant_id", "group_id"], ["endpoint_groups.tenant_id", "endpoint_groups.id"], ondelete="CASCADE"
        ),
    )

    endpoint_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[UUID] = mapped_column(primary_key=True, index=True)


class EndpointSighting(Base):
    """When a MAC address, known or not, was seen. Written by the shipper alone, so without foreign keys."""

    __tablename__ = "endpoint_sightings"

    tenant_id: Mapped[TenantId] = mapped_column(primary_key=True)
    mac: Mapped[str] = mapped_column(Mac(), primary_key=True)
    first_seen_at: Mapped[datetime] = mapped_column(server_default=text("now()"))
    last_seen_at: Mapped[datetime]
    site_id: Mapped[UUID | None]
    nas_id: Mapped[UUID | None]
    nas_port: Mapped[str] = mapped_column(default="")
    ssid: Mapped[str] = mapped_column(default="")
    # Of the last authentication; "" and None where accounting alone told of it.
    method: Mapped[str] = mapped_column(default="")
    identity: Mapped[str] = mapped_column(default="")
    permitted: Mapped[bool | None]
    # How often it was written: once a minute at the most.
    times: Mapped[int] = mapped_column(default=1)


class EndpointEvidence(Base):
    """What a device or its switch said of it: the last value of each key. Written by the shipper alone."""

    __tablename__ = "endpoint_evidence"

    tenant_id: Mapped[TenantId] = mapped_column(primary_key=True)
    mac: Mapped[str] = mapped_column(Mac(), primary_key=True)
    # dhcp | lldp | cdp | http | radius
    source: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]
    at: Mapped[datetime]


class EndpointWork(Base):
    """Endpoints that the worker has to look at, any number of times each."""

    __tablename__ = "endpoint_work"
    __table_args__ = (Index("ix_endpoint_work_tenant_id_id", "tenant_id", "id"),)

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    tenant_id: Mapped[TenantId]
    mac: Mapped[str] = mapped_column(Mac())
