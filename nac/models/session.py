from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, Identity, Index, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from nac.db.base import Base
from nac.db.types import HostAddress, Mac
from nac.ids import TenantId


class RadiusSession(Base):
    """A device's stay on the network, merged from accounting by the shipper; without foreign keys, as the logs.

    No index holds a column that an Interim-Update changes, so that those updates stay in their page (HOT).
    """

    __tablename__ = "sessions"
    __table_args__ = (
        UniqueConstraint("tenant_id", "nas_key", "session_id", "mac_key", "started_at", name="uq_sessions_identity"),
        Index(
            "ix_sessions_live",
            "tenant_id",
            text("started_at DESC"),
            text("id DESC"),
            postgresql_where=text("stopped_at IS NULL"),
        ),
        Index("ix_sessions_live_mac", "mac", postgresql_using="hash", postgresql_where=text("stopped_at IS NULL")),
        Index(
            "ix_sessions_live_identity",
            text("lower(identity)"),
            postgresql_using="hash",
            postgresql_where=text("stopped_at IS NULL"),
        ),
    )

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
    framed_ip: Mapped[str | None] = mapped_column(HostAddress())
    updated_at: Mapped[datetime]
    stopped_at: Mapped[datetime | None]
    session_seconds: Mapped[int | None] = mapped_column(BigInteger())
    input_octets: Mapped[int | None] = mapped_column(BigInteger())
    output_octets: Mapped[int | None] = mapped_column(BigInteger())
    terminate_cause: Mapped[str] = mapped_column(default="")
    flags: Mapped[list[str]] = mapped_column(ARRAY(Text()), default=list)
