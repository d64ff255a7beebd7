from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, ForeignKey, Identity, Index, Text, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, UuidKey
from nac.kit.ids import CellId, SlotNumber, TenantId


class Dictionary(CreatedAt, Base):
    """The RADIUS dictionaries of a radiusd build, uploaded by agents. Replies of policies are checked against them."""

    __tablename__ = "dictionaries"

    # Hash of `content`.
    sha256: Mapped[bytes] = mapped_column(primary_key=True)
    # zlib-compressed JSON of nac.engine.dictionary.
    content: Mapped[bytes]
    server_version: Mapped[str]


class Cell(Base):
    """One radiusd and the agent that owns it."""

    __tablename__ = "cells"

    id: Mapped[CellId] = mapped_column(Identity(always=True), primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    # Host of the agent; "" if the agent has ended.
    host: Mapped[str]
    # active | draining (no new tenants) | retired
    status: Mapped[str] = mapped_column(default="active")
    # Location or purpose.
    labels: Mapped[list[str]] = mapped_column(ARRAY(Text), default=list, server_default="{}")
    # Address to configure at NASes; "" for the address on which radiusd listens.
    address: Mapped[str] = mapped_column(default="", server_default="")
    dictionary_sha256: Mapped[bytes | None] = mapped_column(ForeignKey("dictionaries.sha256"))
    # A pg_snapshot. The cell uses the changes of all transactions that are visible in it.
    replica_position: Mapped[str | None]
    replica_position_at: Mapped[datetime | None]
    agent_seen_at: Mapped[datetime | None]
    # All journal records before this time are in the database.
    shipped_until: Mapped[datetime | None]
    radiusd_started_at: Mapped[datetime | None]
    counters: Mapped[dict[str, Any]] = mapped_column(default=dict)
    alarms: Mapped[list[Any]] = mapped_column(default=list)


class Slot(UuidKey, Base):
    """Capacity for one tenant in a cell: a virtual server that already listens on its ports."""

    __tablename__ = "slots"
    __table_args__ = (UniqueConstraint("cell_id", "number"),)

    cell_id: Mapped[CellId] = mapped_column(ForeignKey("cells.id"))
    number: Mapped[SlotNumber]
    auth_port: Mapped[int]
    acct_port: Mapped[int]
    # Sealed with context "slot:<id>".
    secret_sealed: Mapped[bytes]
    tenant_id: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id"), unique=True)
    # Tenant that will move to this slot, or has just moved away (nac.tenancy.tenants.moves).
    reserved_for: Mapped[TenantId | None] = mapped_column(ForeignKey("tenants.id"), unique=True)
    # free | assigned | retired (waits for a new secret) | reserved (radiusd does not have the moving tenant's secret
    # yet) | ready (it has)
    status: Mapped[str] = mapped_column(default="free")


class JournalPosition(Base):
    """Position up to which a cell's journal is in the log tables.

    Written in the same transaction as the rows: exactly once.
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

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    cell_id: Mapped[CellId] = mapped_column(ForeignKey("cells.id", ondelete="CASCADE"))
    # auth | acct
    stream: Mapped[str]
    # None if the record is unreadable.
    tenant_id: Mapped[UUID | None] = mapped_column(index=True)
    why: Mapped[str]
    # msgpack, as in the journal.
    payload: Mapped[bytes]
    # Whether the record comes from the tenant's previous cell. The agent of this cell stores it automatically.
    handed_over: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    at: Mapped[datetime] = mapped_column(server_default=func.now())
