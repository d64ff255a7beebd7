from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKeyConstraint, Identity, Index, func, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base
from nac.kit.ids import TenantId


class EventNote(Base):
    """A change of a session, endpoint, certificate or alarm. Triggers write notes, and feeds send them."""

    __tablename__ = "event_notes"
    __table_args__ = (
        Index("ix_event_notes_at", "at", postgresql_using="brin"),
        Index("ix_event_notes_live", "tenant_id", "at", "id", postgresql_where=text("kind <> 'session'")),
    )

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
    """Expiry of an endpoint's approval for which there is no event yet."""

    __tablename__ = "endpoint_expiries"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "endpoint_id"], ["endpoints.tenant_id", "endpoints.id"], ondelete="CASCADE"),
    )

    tenant_id: Mapped[TenantId] = mapped_column(primary_key=True)
    endpoint_id: Mapped[UUID] = mapped_column(primary_key=True)
    valid_until: Mapped[datetime] = mapped_column(index=True)
