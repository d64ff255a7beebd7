from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import ForeignKeyConstraint, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from nac.db.base import Base, CreatedAt, TenantOwned, UpdatedAt, UuidKey
from nac.db.types import Mac
from nac.ids import TenantId

EndpointStatus = Literal["active", "blocked"]


class Endpoint(UuidKey, TenantOwned, CreatedAt, UpdatedAt, Base):
    """A device, known by its MAC address."""

    __tablename__ = "endpoints"
    __table_args__ = (UniqueConstraint("tenant_id", "mac"), UniqueConstraint("tenant_id", "id"))

    mac: Mapped[str] = mapped_column(Mac())
    name: Mapped[str] = mapped_column(default="")
    status: Mapped[str] = mapped_column(default="active")
    valid_until: Mapped[datetime | None]
    attributes: Mapped[dict[str, Any]] = mapped_column(default=dict)


class EndpointGroup(UuidKey, TenantOwned, Base):
    __tablename__ = "endpoint_groups"
    __table_args__ = (UniqueConstraint("tenant_id", "name"), UniqueConstraint("tenant_id", "id"))

    # Immutable (policies and replica records hold it).
    name: Mapped[str]


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
    """When a MAC address, known or not, was last seen. Written by the shipper alone, so without foreign keys."""

    __tablename__ = "endpoint_sightings"

    tenant_id: Mapped[TenantId] = mapped_column(primary_key=True)
    mac: Mapped[str] = mapped_column(Mac(), primary_key=True)
    last_seen_at: Mapped[datetime]
    site_id: Mapped[UUID | None]
    nas_id: Mapped[UUID | None]
    nas_port: Mapped[str] = mapped_column(default="")
    permitted: Mapped[bool]
