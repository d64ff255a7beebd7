from datetime import datetime
from typing import Any, Literal, get_args

from sqlalchemy import BigInteger, Column, DateTime, ForeignKey, Identity, Index, Integer, Table, func, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, Mac, PgSnapshot, TenantOwned, Xid8
from nac.kit.db.declarations import FileContent, FileExclusion
from nac.kit.ids import TenantId
from nac.kit.permissions import Effect, Permission

RedecisionMode = Literal["off", "preview", "send"]
REDECISION_MODES: tuple[RedecisionMode, ...] = get_args(RedecisionMode)
RedecisionState = Literal["deciding", "waiting", "sending", "done", "stopped", "superseded"]
RedecisionAction = Literal["disconnect", "reauthenticate"]


class RedecisionSettings(Base):
    """A tenant's settings for re-decisions. Defaults apply to a tenant without a row."""

    __tablename__ = "redecision_settings"
    tenant_file = FileContent(Permission.REDECISION_READ, (Permission.REDECISION_MANAGE,))
    effects = (Effect.SESSIONS,)

    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)
    mode: Mapped[str] = mapped_column(default="send", server_default="send")
    # Maximum number of requests per second to the tenant's NASes.
    per_second: Mapped[int] = mapped_column(default=20, server_default=text("20"))
    # A run with more disconnects than either limit waits for a person's approval.
    ceiling_percent: Mapped[int] = mapped_column(default=10, server_default=text("10"))
    ceiling_sessions: Mapped[int] = mapped_column(default=1_000, server_default=text("1000"))
    # Minutes between two checks of all sessions, even without a change, because rules can depend on time; 0 for never.
    every_minutes: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    looked_at: Mapped[datetime] = mapped_column(server_default=func.now())


class RedecisionMark(TenantOwned, Base):
    """A change that can affect decisions about sessions."""

    __tablename__ = "redecision_marks"
    __table_args__ = (Index("ix_redecision_marks_tenant_id_due_at", "tenant_id", "due_at"),)
    tenant_file = FileExclusion("in progress")
    effects = ()

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    # Kind of the changed row, as in replica_changes, or a kind of nac.redecisions.runner.
    noun: Mapped[str]
    key: Mapped[str]
    # Transaction whose changes the cell must have first; null if the cell needs no change first.
    xact: Mapped[str | None] = mapped_column(Xid8())
    due_at: Mapped[datetime] = mapped_column(server_default=text("now() + interval '1 second'"))


class Redecision(TenantOwned, CreatedAt, Base):
    """A run that decides again about live sessions, and sends a request about each session whose decision changed."""

    __tablename__ = "redecisions"
    __table_args__ = (
        Index("ix_redecisions_tenant_id_id", "tenant_id", "id"),
        Index("ix_redecisions_at_work", "tenant_id", "id", postgresql_where=text("state IN ('deciding', 'sending')")),
        Index("ix_redecisions_waiting", "tenant_id", "id", postgresql_where=text("state = 'waiting'")),
        Index("ix_redecisions_holding", "tenant_id", "id", postgresql_where=text("holds")),
    )
    tenant_file = FileExclusion("in progress")
    effects = (Effect.SESSIONS,)

    id: Mapped[int] = mapped_column(BigInteger(), Identity(always=True), primary_key=True)
    # Text for people about the change that caused the run, and who made the change.
    cause: Mapped[str] = mapped_column(default="", server_default="")
    requested_by: Mapped[str] = mapped_column(default="", server_default="")
    # Whether the run checks all sessions or only some: all | some
    scope: Mapped[str]
    state: Mapped[str] = mapped_column(default="deciding", server_default="deciding")
    # Reason why the run waits for a person's approval: preview | ceiling.
    waits_for: Mapped[str] = mapped_column(default="", server_default="")
    # Whether a person started or approved the run. Such a run sends requests in any mode.
    sends: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    # Whether a person stopped the run. Later runs then do not send the same changes.
    holds: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    # Whether something changed during the run, so that it must check all sessions again.
    again: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    # Start and id of the last checked session. The run checks the newest sessions first.
    cursor_at: Mapped[datetime | None]
    cursor_id: Mapped[int | None] = mapped_column(BigInteger())
    sessions: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    unchanged: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    disconnects: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    reauthentications: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    # Number of disconnects, plus number of reauthentications whose requests to the NAS have a Disconnect step.
    may_disconnect: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    # Number of changed decisions that Admit does not send, because a person stopped an earlier run with the same
    # changes.
    held_back: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    # Summary of the run's changed decisions (nac.redecisions.service), set when Admit deletes the rows of
    # `RedecisionItem`.
    found: Mapped[dict[str, Any] | None]
    # Number of sessions that could not be decided again, by nac.redecisions.judgement.UndecidableReason.
    undecidable: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default=text("'{}'"))
    # Time when the run last queued requests.
    fed_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    detail: Mapped[str] = mapped_column(default="", server_default="")


class RedecisionItem(Base):
    """A live session with a changed decision."""

    __tablename__ = "redecision_items"
    __table_args__ = (
        Index(
            "ix_redecision_items_found",
            "tenant_id",
            "redecision_id",
            "session_row",
            postgresql_where=text("state = 'found'"),
        ),
    )
    tenant_file = FileExclusion("in progress")
    effects = (Effect.SESSIONS,)

    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)
    redecision_id: Mapped[int] = mapped_column(BigInteger(), primary_key=True, autoincrement=False)
    session_row: Mapped[int] = mapped_column(BigInteger(), primary_key=True, autoincrement=False)
    # disconnect | reauthenticate
    action: Mapped[str]
    # Whether the request to the NAS has a Disconnect step.
    may_disconnect: Mapped[bool] = mapped_column(server_default=text("true"))
    # found | requested (the request was sent to the NAS) | settled (no request was needed) | withdrawn
    state: Mapped[str] = mapped_column(default="found", server_default="found")
    # For a stopped run: whether the decision has changed since, so that later runs can send this change.
    released: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    # Texts for people: name of the NAS, and slug of the site.
    nas: Mapped[str]
    nas_key: Mapped[str]
    site: Mapped[str]
    mac: Mapped[str | None] = mapped_column(Mac())
    identity: Mapped[str]
    before_verdict: Mapped[str]
    before_rule: Mapped[str]
    before_vlan: Mapped[str]
    before_monitored: Mapped[str]
    after_verdict: Mapped[str]
    after_rule: Mapped[str]
    after_vlan: Mapped[str]
    after_monitored: Mapped[str]
    # Reason code from nac.engine.reasons.
    after_reason: Mapped[str]


class RedecisionFailure(Base):
    """Repeated failures to decide again about a tenant's sessions."""

    __tablename__ = "redecision_failures"
    tenant_file = FileExclusion("in progress")

    tenant_id: Mapped[TenantId] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True)
    since: Mapped[datetime] = mapped_column(server_default=func.now())
    times: Mapped[int] = mapped_column(server_default=text("1"))
    # Message of the last failure.
    detail: Mapped[str]


# Position in the change feed up to which re-decisions have processed changes.
REDECISION_POSITION = Table(
    "redecision_position",
    Base.metadata,
    Column("id", Integer(), primary_key=True, autoincrement=False),
    Column("position", PgSnapshot(), nullable=False),
    Column("looked_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)
