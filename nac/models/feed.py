"""Feeds, and changes of objects that feeds send as events (notes)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, ForeignKeyConstraint, Identity, Index, Text, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, TenantOwned, UpdatedAt, UuidKey, Xid8
from nac.kit.db.declarations import FileContent, FileExclusion, FileLog, Reference, report_taken, seal_with
from nac.kit.ids import TenantId
from nac.kit.permissions import Effect, Permission

FeedKind = Literal["syslog", "webhook"]
# Permission to read each kind of event. A person who sets up a feed needs the permissions for its kinds.
PERMISSION_BY_KIND: Final[Mapping[str, Permission]] = {
    "authentication": Permission.LOG_READ,
    "accounting": Permission.LOG_READ,
    "coa": Permission.SESSION_READ,
    "session": Permission.SESSION_READ,
    "audit": Permission.AUDIT_READ,
    "alarm": Permission.TENANT_READ,
    "endpoint": Permission.ENDPOINT_READ,
    "certificate": Permission.CERTIFICATE_READ,
}


class Feed(UuidKey, TenantOwned, CreatedAt, UpdatedAt, Base):
    """A receiver of a tenant's events, and the position up to which Admit has sent events."""

    __tablename__ = "feeds"
    __table_args__ = (
        UniqueConstraint("tenant_id", "slug", info=report_taken("name", "A feed with this name already exists.")),
        UniqueConstraint("tenant_id", "id"),
    )
    reference = Reference("feed", "a feed")
    tenant_file = FileContent(
        Permission.FEED_READ,
        # The permissions to read the data that a feed can send.
        (Permission.FEED_MANAGE, *PERMISSION_BY_KIND.values()),
        needs_key=True,
        reset={
            "status": "paused",
            "paused_because": "Imported from a file.",
            "failure": "",
            **dict.fromkeys(
                ("at_once", "attempted_at", "delivered_at", "failing_since", "mark_at", "failure_reported_at", "until")
            ),
            **dict.fromkeys(("attempts", "delivered", "lost", "mark", "mark_row", "mark_rows"), 0),
        },
    )
    effects = (Effect.DISCLOSURE, Effect.RECORDS)

    slug: Mapped[str]
    kind: Mapped[str]
    # In the format of nac.logs.feeds.settings.
    settings: Mapped[dict[str, Any]]
    # Names of the event sources (nac.logs.feeds.event_sources).
    sources: Mapped[list[str]] = mapped_column(ARRAY(Text()))
    # Secret of a webhook, or private key of a syslog client's certificate.
    secret_sealed: Mapped[bytes | None] = mapped_column(info=seal_with("feed:{tenant}:{id}"))
    # Encrypted settings that only the receiver may see (nac.logs.feeds.settings).
    private_sealed: Mapped[bytes | None] = mapped_column(info=seal_with("feed:{tenant}:{id}:private"))
    former_secret_sealed: Mapped[bytes | None] = mapped_column(info=seal_with("feed:{tenant}:{id}"))
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
    failure_reported_at: Mapped[datetime | None]
    delivered_at: Mapped[datetime | None]
    delivered: Mapped[int] = mapped_column(BigInteger(), server_default=text("0"))
    # Maximum number of events per batch after the receiver timed out; null for the default.
    at_once: Mapped[int | None]
    # Number of events that Admit did not deliver and does not retry.
    lost: Mapped[int] = mapped_column(BigInteger(), server_default=text("0"))


class FeedMark(Base):
    """A range of log rows that one transaction wrote, or that one feed must send again."""

    __tablename__ = "feed_marks"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "feed_id"], ["feeds.tenant_id", "feeds.id"], ondelete="CASCADE"),
        Index("ix_feed_marks_tenant_id_source_xact", "tenant_id", "source", "xact"),
        Index("ix_feed_marks_tenant_id_id", "tenant_id", "id"),
    )
    tenant_file = FileExclusion("in progress")
    effects = ()

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    tenant_id: Mapped[TenantId]
    feed_id: Mapped[UUID | None]
    xact: Mapped[str] = mapped_column(Xid8(), server_default=text("pg_current_xact_id()"))
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    # Name of the event source (nac.logs.feeds.event_sources).
    source: Mapped[str]
    first_at: Mapped[datetime]
    last_at: Mapped[datetime]
    first_row: Mapped[int] = mapped_column(BigInteger())
    last_row: Mapped[int] = mapped_column(BigInteger())
    # Number of events in the range; null for a replay, where it is unknown.
    events: Mapped[int | None]


class EventNote(Base):
    """A change of a session, endpoint, certificate or alarm. Triggers write the row; feeds send it as an event."""

    __tablename__ = "event_notes"
    __table_args__ = (
        Index("ix_event_notes_at", "at", postgresql_using="brin"),
        Index("ix_event_notes_live", "tenant_id", "at", "id", postgresql_where=text("kind <> 'session'")),
    )
    tenant_file = FileLog(Permission.LOG_READ)

    tenant_id: Mapped[TenantId] = mapped_column(primary_key=True)
    # Time of the transaction.
    at: Mapped[datetime] = mapped_column(primary_key=True, server_default=func.now())
    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    # session | alarm | endpoint | certificate
    kind: Mapped[str]
    what: Mapped[str]
    happened_at: Mapped[datetime]
    # State of the object after the change, in a format of nac.logs.events.parts.
    said: Mapped[dict[str, Any]]


class EndpointExpiry(Base):
    """End of an endpoint's approval, for which no event exists yet."""

    __tablename__ = "endpoint_expiries"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "endpoint_id"], ["endpoints.tenant_id", "endpoints.id"], ondelete="CASCADE"),
    )
    tenant_file = FileExclusion("in progress")

    tenant_id: Mapped[TenantId] = mapped_column(primary_key=True)
    endpoint_id: Mapped[UUID] = mapped_column(primary_key=True)
    valid_until: Mapped[datetime] = mapped_column(index=True)
