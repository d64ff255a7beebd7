"""Sources of feeds: log tables and the table `event_notes`, with the functions that convert their rows to events."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, DateTime, Row, and_, bindparam, func, select, true, tuple_
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased, defer

from nac.kit.ids import TenantId
from nac.logs.events import accounting, alarms, audit, authentication, certificates, coa, endpoints, sessions
from nac.logs.events.document import Event
from nac.logs.events.event_values import EventTenant
from nac.models import AccountingLog, AuditEntry, AuthLog, CoaRequest, EventNote


class PartlyReadMark(NamedTuple):
    """A mark that the feed has partly read, and the last row that the feed has read."""

    mark: int
    at: datetime
    row: int


@dataclass(frozen=True, slots=True)
class EventSource:
    # Kind of the events, in `admit.kind`.
    kind: str
    model: Any
    # Column with the time of a row. For each range of rows, a mark stores the first and the last time.
    at: InstrumentedAttribute[datetime]
    event: Callable[[Any, EventTenant], Event]
    # Possible values of `event.outcome`; empty if the events have no outcome.
    outcomes: tuple[str, ...] = ()
    # Columns that events do not use. Unused columns are not loaded, to save time.
    unused: tuple[str, ...] = ()
    # Condition for the rows of this source, if several sources share a table.
    only: ColumnElement[bool] | None = None

    def rows(
        self,
        session: Session,
        tenant_id: TenantId,
        marks: Sequence[Row[Any]],
        *,
        begun: PartlyReadMark | None,
        most: int,
    ) -> Iterator[tuple[int, datetime, int, Any]]:
        """Yield the rows of `marks` in order as (id of the mark, time, id of the row, row).

        If the feed has partly read a mark, the rows of this mark begin after the row of `begun`.
        """
        behind = [_start_after(mark, begun) for mark in marks]
        mark = (
            func.unnest(
                *(
                    bindparam(None, values, type_=ARRAY(kind))
                    for kind, values in (
                        (BigInteger(), [mark.id for mark in marks]),
                        (DateTime(timezone=True), [at for at, _ in behind]),
                        (BigInteger(), [row for _, row in behind]),
                        (DateTime(timezone=True), [mark.last_at for mark in marks]),
                        (BigInteger(), [mark.first_row for mark in marks]),
                        (BigInteger(), [mark.last_row for mark in marks]),
                    )
                )
            )
            .table_valued("id", "behind_at", "behind_row", "last_at", "first_row", "last_row", name="mark")
            .render_derived()
        )
        key = self.model.id
        named = and_(
            self.model.tenant_id == tenant_id,
            # With this time range, PostgreSQL skips partitions. With the next condition, PostgreSQL finds the rows in
            # the index.
            self.at.between(mark.c.behind_at, mark.c.last_at),
            tuple_(self.at, key) > tuple_(mark.c.behind_at, mark.c.behind_row),
            key.between(mark.c.first_row, mark.c.last_row),
            self.only if self.only is not None else true(),
        )
        of_mark = select(self.model).where(named).order_by(self.at, key).limit(most).lateral("row")
        row = aliased(self.model, of_mark)
        at = getattr(row, self.at.key)
        unused = [defer(getattr(row, name), raiseload=True) for name in self.unused]
        query = select(mark.c.id, at, row.id, row).join_from(mark, of_mark, true()).options(*unused)
        yield from session.execute(query.order_by(mark.c.id, at, row.id).limit(most))


def _start_after(mark: Row[Any], begun: PartlyReadMark | None) -> tuple[datetime, int]:
    """Return time and id of the row after which reading continues."""
    if begun is not None and begun.mark == mark.id:
        return begun.at, begun.row
    return mark.first_at, mark.first_row - 1


def _note_source(kind: str, event: Callable[..., Event]) -> EventSource:
    return EventSource(
        kind, EventNote, EventNote.at, lambda row, tenant: event(row, tenant=tenant), only=EventNote.kind == kind
    )


# Sources by the name that marks use: a table, or a kind of note.
EVENT_SOURCES = {
    "auth_log": EventSource(
        "authentication",
        AuthLog,
        AuthLog.at,
        lambda row, tenant: authentication.from_log(row, tenant=tenant),
        outcomes=("success", "failure"),
        unused=("reply",),
    ),
    "accounting_log": EventSource(
        "accounting", AccountingLog, AccountingLog.at, lambda row, tenant: accounting.from_log(row, tenant=tenant)
    ),
    "coa_requests": EventSource(
        "coa",
        CoaRequest,
        CoaRequest.created_at,
        lambda row, tenant: coa.from_request(row, tenant=tenant),
        outcomes=("success", "failure"),
    ),
    "audit_log": EventSource(
        "audit", AuditEntry, AuditEntry.at, lambda row, tenant: audit.from_log(row, tenant=tenant)
    ),
    "session": _note_source("session", sessions.from_note),
    "alarm": _note_source("alarm", alarms.from_note),
    "endpoint": _note_source("endpoint", endpoints.from_note),
    "certificate": _note_source("certificate", certificates.from_note),
}


EVENT_KINDS = tuple(source.kind for source in EVENT_SOURCES.values())


def list_source_names(kinds: Sequence[str], outcomes: Sequence[str]) -> list[str]:
    """Return the sources whose events can have one of these kinds and outcomes. No `outcomes` mean all outcomes."""
    return [
        name
        for name, source in EVENT_SOURCES.items()
        if source.kind in kinds and (not outcomes or set(outcomes) & set(source.outcomes))
    ]


def list_kinds_without_events(kinds: Sequence[str], outcomes: Sequence[str]) -> list[str]:
    """Return those `kinds` whose events never have one of these `outcomes`. A feed would never send such events."""
    heard = {EVENT_SOURCES[name].kind for name in list_source_names(kinds, outcomes)}
    return [kind for kind in kinds if kind not in heard]
