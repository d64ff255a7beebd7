from datetime import datetime
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Column,
    Computed,
    DateTime,
    Identity,
    Index,
    Table,
    Text,
    TextClause,
    UniqueConstraint,
    Uuid,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, HostAddress, Mac
from nac.kit.db.declarations import FileExclusion, FileLog, Purge, TableDeclaration
from nac.kit.ids import TenantId
from nac.kit.permissions import Permission

_LIVE, _ENDED = "stopped_at IS NULL", "stopped_at IS NOT NULL"


def _index(name: str, *columns: str | TextClause, where: str) -> Index:
    return Index(f"ix_sessions_{name}", *columns, postgresql_where=text(where))


class RadiusSession(Base):
    """A session of a device. The agent builds the row from accounting records.

    Like the log tables, this table has no foreign keys. No index contains a column that Interim-Updates change, so that
    PostgreSQL can update a row without index writes (HOT).
    """

    __tablename__ = "sessions"
    __table_args__ = (
        UniqueConstraint("tenant_id", "nas_key", "session_id", "mac_key", "started_at", name="uq_sessions_identity"),
        _index("live", "tenant_id", text("started_at DESC"), text("id DESC"), where=_LIVE),
        _index("live_mac", "tenant_id", "mac", where=_LIVE),
        _index("live_identity", "tenant_id", "identity_key", text("started_at DESC"), text("id DESC"), where=_LIVE),
        _index("live_framed_ip", "tenant_id", "framed_ip", where=_LIVE),
        _index("live_site", "tenant_id", "site_id", text("started_at DESC"), text("id DESC"), where=_LIVE),
        _index("live_nas", "tenant_id", "nas_id", text("started_at DESC"), text("id DESC"), where=_LIVE),
        *(
            _index(name, "tenant_id", name, where=f"{name} IS NOT NULL")
            for name in ("framed_ipv6", "framed_prefix", "delegated_prefix")
        ),
        _index("ended", "tenant_id", "stopped_at", where=f"{_ENDED} AND NOT ('stale' = ANY (flags))"),
        _index("stale", "tenant_id", "stopped_at", where=f"{_ENDED} AND 'stale' = ANY (flags)"),
        _index("ended_mac", "tenant_id", "mac", where=_ENDED),
        _index("ended_identity", "tenant_id", "identity_key", where=_ENDED),
        _index("ended_framed_ip", "tenant_id", "framed_ip", where=_ENDED),
        *(
            _index(f"ended_{name}", "tenant_id", f"{name}_id", text("stopped_at DESC"), text("id DESC"), where=_ENDED)
            for name in ("site", "nas")
        ),
        _index("session_id", "tenant_id", "session_id", where="session_id <> ''"),
        _index("cui", "tenant_id", "cui", where="cui <> ''"),
    )
    purge = Purge.LATE_ROWS
    tenant_file = FileExclusion("observed again on the network")

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    tenant_id: Mapped[TenantId]
    nas_key: Mapped[str]
    session_id: Mapped[str]
    mac_key: Mapped[str]
    started_at: Mapped[datetime]
    site_id: Mapped[UUID | None]
    nas_id: Mapped[UUID | None]
    nas_address: Mapped[str | None] = mapped_column(HostAddress())
    mac: Mapped[str | None] = mapped_column(Mac())
    identity: Mapped[str] = mapped_column(default="")
    # User name in lower case, for searches that ignore case.
    identity_key: Mapped[str | None] = mapped_column(Computed("lower(identity)", persisted=True))
    framed_ip: Mapped[str | None] = mapped_column(HostAddress())
    updated_at: Mapped[datetime]
    stopped_at: Mapped[datetime | None]
    session_seconds: Mapped[int | None] = mapped_column(BigInteger())
    input_octets: Mapped[int | None] = mapped_column(BigInteger())
    output_octets: Mapped[int | None] = mapped_column(BigInteger())
    terminate_cause: Mapped[str] = mapped_column(default="")
    flags: Mapped[list[str]] = mapped_column(ARRAY(Text()), default=list)
    nas_port: Mapped[str] = mapped_column(server_default="")
    framed_ipv6: Mapped[str | None] = mapped_column(HostAddress())
    # A prefix such as 2001:db8::/64.
    framed_prefix: Mapped[str | None] = mapped_column(HostAddress())
    delegated_prefix: Mapped[str | None] = mapped_column(HostAddress())
    class_: Mapped[str] = mapped_column("class", server_default="")
    cui: Mapped[str] = mapped_column(server_default="")
    interim_seconds: Mapped[int | None]
    usage_hour: Mapped[datetime] = mapped_column(server_default=text("date_trunc('hour', now(), 'UTC')"))
    settled_seconds: Mapped[int] = mapped_column(BigInteger(), server_default=text("0"))
    settled_input: Mapped[int] = mapped_column(BigInteger(), server_default=text("0"))
    settled_output: Mapped[int] = mapped_column(BigInteger(), server_default=text("0"))


class EndedSession(Base):
    """A session that ended so long ago that no further records are expected."""

    __tablename__ = "session_history"
    __table_args__ = (
        Index("ix_session_history_tenant_id_id", "tenant_id", "id"),
        Index("ix_session_history_tenant_id_identity", "tenant_id", "identity_key", text("stopped_at DESC")),
        *(
            Index(f"ix_session_history_tenant_id_{name}", "tenant_id", name, text("stopped_at DESC"))
            for name in ("mac", "framed_ip", "site_id", "nas_id", "session_id")
        ),
        Index(
            "ix_session_history_tenant_id_cui",
            "tenant_id",
            "cui",
            text("stopped_at DESC"),
            postgresql_where=text("cui <> ''"),
        ),
        *(
            Index(
                f"ix_session_history_tenant_id_{name}",
                "tenant_id",
                name,
                postgresql_where=literal_column(name).is_not(None),
            )
            for name in ("framed_ipv6", "framed_prefix", "delegated_prefix")
        ),
        {"postgresql_partition_by": "RANGE (stopped_at)"},
    )
    tenant_file = FileLog(Permission.SESSION_READ)

    tenant_id: Mapped[TenantId] = mapped_column(primary_key=True)
    stopped_at: Mapped[datetime] = mapped_column(primary_key=True)
    id: Mapped[int] = mapped_column(BigInteger(), primary_key=True, autoincrement=False)
    nas_key: Mapped[str]
    session_id: Mapped[str]
    mac_key: Mapped[str]
    started_at: Mapped[datetime]
    site_id: Mapped[UUID | None]
    nas_id: Mapped[UUID | None]
    nas_address: Mapped[str | None] = mapped_column(HostAddress())
    nas_port: Mapped[str]
    mac: Mapped[str | None] = mapped_column(Mac())
    identity: Mapped[str]
    identity_key: Mapped[str]
    framed_ip: Mapped[str | None] = mapped_column(HostAddress())
    framed_ipv6: Mapped[str | None] = mapped_column(HostAddress())
    framed_prefix: Mapped[str | None] = mapped_column(HostAddress())
    delegated_prefix: Mapped[str | None] = mapped_column(HostAddress())
    class_: Mapped[str] = mapped_column("class")
    cui: Mapped[str]
    updated_at: Mapped[datetime]
    session_seconds: Mapped[int | None] = mapped_column(BigInteger())
    input_octets: Mapped[int | None] = mapped_column(BigInteger())
    output_octets: Mapped[int | None] = mapped_column(BigInteger())
    terminate_cause: Mapped[str]
    flags: Mapped[list[str]] = mapped_column(ARRAY(Text()))


class NasRestart(Base):
    """Last Accounting-On or Accounting-Off of a NAS. `nas_key` is the identifier that the NAS sends.

    The id of an unknown site is 0.
    """

    __tablename__ = "nas_restarts"
    tenant_file = FileExclusion("observed again on the network")

    tenant_id: Mapped[TenantId] = mapped_column(primary_key=True)
    nas_key: Mapped[str] = mapped_column(primary_key=True)
    site_id: Mapped[UUID] = mapped_column(primary_key=True, server_default=str(UUID(int=0)))
    restarted_at: Mapped[datetime]
    # Last session that Admit ended because of the restart; null when all earlier sessions have ended.
    ended_session: Mapped[str | None]
    ended_mac: Mapped[str | None]
    ended_start: Mapped[datetime | None]


# Usage of a session in one hour, written after the hour or the session ends. A session that continues after its end
# can have several rows per hour.
USAGE_HOURS = Table(
    "usage_hours",
    Base.metadata,
    Column("tenant_id", Uuid(), nullable=False),
    Column("hour", DateTime(timezone=True), nullable=False),
    Column("session_row", BigInteger(), nullable=False),
    Column("site_id", Uuid()),
    Column("nas_id", Uuid()),
    Column("mac", Mac()),
    Column("identity", Text(), nullable=False),
    Column("seconds", BigInteger(), nullable=False),
    Column("input_octets", BigInteger(), nullable=False),
    Column("output_octets", BigInteger(), nullable=False),
    Column("nas_key", Text(), nullable=False, server_default=""),
    Index("ix_usage_hours_tenant_id_mac_hour", "tenant_id", "mac", "hour"),
    postgresql_partition_by="RANGE (hour)",
    info={TableDeclaration: TableDeclaration(tenant_file=FileLog(Permission.USAGE_READ))},
)
