from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, ForeignKeyConstraint, Identity, Index, Text, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, TenantOwned, UpdatedAt, UuidKey
from nac.kit.db.types import Xid8
from nac.kit.ids import TenantId

FeedKind = Literal["syslog", "webhook"]


class Feed(UuidKey, TenantOwned, CreatedAt, UpdatedAt, Base):
    """A receiver of a tenant's events, and the position up to which Admit has sent events."""

    __tablename__ = "feeds"
    __table_args__ = (UniqueConstraint("tenant_id", "slug"), UniqueConstraint("tenant_id", "id"))

    slug: Mapped[str]
    kind: Mapped[str]
    # In the format of nac.logs.feeds.settings.
    settings: Mapped[dict[str, Any]]
    # Names of the source tables.
    sources: Mapped[list[str]] = mapped_column(ARRAY(Text()))
    # Secret of a webhook, or private key of a syslog client's certificate.
    secret_sealed: Mapped[bytes | None]
    # Encrypted settings that only the receiver may see (nac.logs.feeds.sealed_settings).
    private_sealed: Mapped[bytes | None]
    former_secret_sealed: Mapped[bytes | None]
    former_secret_until: Mapped[datetime | None]
    status: Mapped[str] = mapped_column(server_default="active")
    paused_because: Mapped[str] = mapped_column(server_default="")
    # Position of delivery: nac.logs.feeds.batch_reader explains the next six columns.
    done: Mapped[str] = mapped_column(server_default=text("pg_current_snapshot()::text"))
    until: Mapped[str | None]
    mark: Mapped[int] = mapped_column(BigInteger(), server_default=text("0"))
    mark_at: Mapped[datetime | None]
    mark_row: Mapped[int] = mapped_column(BigInteger(), server_default=text("0"))
    mark_rows: Mapped[int] = mapped_column(BigInteger(), server_default=text("0"))
    # Number of consecutive failures.
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    attempted_at: Mapped[datetime | None]
    next_attempt_at: Mapped[datetime] = mapped_column(server_default=func.now())
    failing_since: Mapped[datetime | None]
    failure: Mapped[str] = mapped_column(server_default="")
    told_failing_at: Mapped[datetime | None]
    delivered_at: Mapped[datetime | None]
    delivered: Mapped[int] = mapped_column(BigInteger(), server_default=text("0"))
    # Maximum number of events per batch after the receiver timed out; null for the default.
    at_once: Mapped[int | None]
    # Number of events that Admit could not deliver in time and does not retry.
    lost: Mapped[int] = mapped_column(BigInteger(), server_default=text("0"))


class FeedMark(Base):
    """A range of log rows that one transaction wrote, or that one feed must send again."""

    __tablename__ = "feed_marks"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "feed_id"], ["feeds.tenant_id", "feeds.id"], ondelete="CASCADE"),
        Index("ix_feed_marks_tenant_id_source_xact", "tenant_id", "source", "xact"),
        Index("ix_feed_marks_tenant_id_id", "tenant_id", "id"),
    )

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    tenant_id: Mapped[TenantId]
    feed_id: Mapped[UUID | None]
    xact: Mapped[str] = mapped_column(Xid8(), server_default=text("pg_current_xact_id()"))
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    # Name of the table.
    source: Mapped[str]
    first_at: Mapped[datetime]
    last_at: Mapped[datetime]
    first_row: Mapped[int] = mapped_column(BigInteger())
    last_row: Mapped[int] = mapped_column(BigInteger())
    # Number of events in the range; null for a replay, where it is unknown.
    events: Mapped[int | None]
