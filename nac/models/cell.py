"""Cells, changes that cells copy to their replicas, and alarms of the platform."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, ForeignKey, Identity, Index, Text, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, UuidKey, Xid8
from nac.kit.db.declarations import FileExclusion, Reference, report_conflict, report_taken
from nac.kit.ids import CellId, SlotNumber, TenantId
from nac.kit.permissions import Effect


class Dictionary(CreatedAt, Base):
    """The RADIUS dictionaries of a radiusd build, uploaded by agents, to check the replies of policies."""

    __tablename__ = "dictionaries"
    reference = Reference("dictionary", "a dictionary")

    # Hash of `content`.
    sha256: Mapped[bytes] = mapped_column(primary_key=True)
    # zlib-compressed JSON of nac.engine.dictionary.
    content: Mapped[bytes]
    server_version: Mapped[str]


class Cell(Base):
    """One radiusd and the agent that controls it."""

    __tablename__ = "cells"
    __table_args__ = (UniqueConstraint("name", info=report_taken("name", "A cell with this name already exists.")),)
    reference = Reference("cell", "a cell")
    effects = (Effect.PLATFORM,)

    id: Mapped[CellId] = mapped_column(Identity(always=True), primary_key=True)
    name: Mapped[str]
    # Host of the agent; "" if the agent has ended.
    host: Mapped[str]
    # active | draining (no new tenants) | retired
    status: Mapped[str] = mapped_column(default="active")
    # Location or purpose.
    labels: Mapped[list[str]] = mapped_column(ARRAY(Text), default=list, server_default="{}")
    # Address to configure at NASes; "" for the address on which radiusd listens.
    address: Mapped[str] = mapped_column(default="", server_default="")
    dictionary_sha256: Mapped[bytes | None] = mapped_column(ForeignKey("dictionaries.sha256"))
    # PostgreSQL snapshot (pg_snapshot). The cell uses the changes of all transactions that are visible in the snapshot.
    replica_position: Mapped[str | None]
    replica_position_at: Mapped[datetime | None]
    agent_seen_at: Mapped[datetime | None]
    # All journal records before this time are in the database.
    shipped_until: Mapped[datetime | None]
    radiusd_started_at: Mapped[datetime | None]
    counters: Mapped[dict[str, Any]] = mapped_column(default=dict)
    alarms: Mapped[list[Any]] = mapped_column(default=list)


class Slot(UuidKey, Base):
    """Room for one tenant in a cell: a pair of UDP ports on which a virtual server already listens."""

    __tablename__ = "slots"
    __table_args__ = (
        UniqueConstraint("tenant_id", info=report_conflict("tenant", "This tenant already has a slot.")),
        UniqueConstraint("reserved_for", info=report_conflict("tenant", "This tenant is already being moved.")),
        UniqueConstraint("cell_id", "number"),
    )
    plural = "slots of cells"
    tenant_file = FileExclusion("belongs to its cell")
    effects = (Effect.TRUST, Effect.PLATFORM, Effect.TENANTS)

    cell_id: Mapped[CellId] = mapped_column(ForeignKey("cells.id"))
    number: Mapped[SlotNumber]
    auth_port: Mapped[int]
    acct_port: Mapped[int]
    # Sealed with context "slot:<id>".
    secret_sealed: Mapped[bytes]
    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id"))
    # Tenant that will move to this slot, or has just moved away (nac.tenancy.tenants.moves).
    reserved_for: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id"))
    # free | assigned | retired (waits for a new secret) | reserved (radiusd does not have the moving tenant's secret
    # yet) | ready (radiusd has the secret)
    status: Mapped[str] = mapped_column(default="free")


class JournalPosition(Base):
    """Position up to which a cell's journal is in the log tables.

    The agent stores the position in the transaction that stores the rows, so it stores each record exactly once.
    """

    __tablename__ = "journal_positions"

    cell_id: Mapped[CellId] = mapped_column(ForeignKey("cells.id", ondelete="CASCADE"), primary_key=True)
    # auth | acct
    stream: Mapped[str] = mapped_column(primary_key=True)
    segment: Mapped[str]
    offset: Mapped[int] = mapped_column(BigInteger())
    # EAP conversations that have not ended and in which radiusd sent the server certificate.
    open_conversations: Mapped[dict[str, Any]] = mapped_column(default=dict)
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now(), onupdate=func.now())


class QuarantinedRecord(Base):
    """A journal record that the agent could not store, with the reason. `radius.agent.replay` stores it later."""

    __tablename__ = "quarantined_records"
    __table_args__ = (
        Index("ix_quarantined_records_cell_id_stream_id", "cell_id", "stream", "id"),
        Index("ix_quarantined_records_handed_over", "cell_id", postgresql_where=text("handed_over")),
    )
    tenant_file = FileExclusion("belongs to its cell")

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    cell_id: Mapped[CellId] = mapped_column(ForeignKey("cells.id", ondelete="CASCADE"))
    # auth | acct
    stream: Mapped[str]
    # None if the record is unreadable.
    tenant_id: Mapped[UUID | None] = mapped_column(index=True)
    why: Mapped[str]
    # msgpack, as in the journal.
    payload: Mapped[bytes]
    # Whether the record comes from the tenant's previous cell. The agent of `cell_id` stores it automatically.
    handed_over: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    at: Mapped[datetime] = mapped_column(server_default=func.now())


class ReplicaChange(Base):
    """A change of a row that replicas contain. Triggers write changes, and agents apply them to their replicas."""

    __tablename__ = "replica_changes"
    tenant_file = FileExclusion("belongs to its cell")

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    xact: Mapped[str] = mapped_column(Xid8(), server_default=text("pg_current_xact_id()"), index=True)
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    tenant_id: Mapped[UUID | None]
    # Set only for slots, because slot numbers are unique only within a cell.
    cell_id: Mapped[CellId | None]
    noun: Mapped[str]
    key: Mapped[str]


class PlatformAlarm(Base):
    """A current problem of the platform. Problems of cells are in `cells.alarms`."""

    __tablename__ = "platform_alarms"

    code: Mapped[str] = mapped_column(primary_key=True)
    detail: Mapped[str]
    since: Mapped[datetime]
