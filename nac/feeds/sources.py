"""What feeds send: rows of the logs, and notes of what has no log of its own; and the events that those are."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, DateTime, Row, and_, bindparam, func, select, true, tuple_
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased, defer

from nac.events import accounting, alarms, audit, authentication, certificates, coa, endpoints, sessions
from nac.events.document import Event
from nac.events.texts import Tenant
from nac.ids import TenantId
from nac.models import AccountingLog, AuditEntry, AuthLog, CoaRequest, EventNote


class Begun(NamedTuple):
    """A mark that was read in part, and its last row that was."""

    mark: int
    at: datetime
    row: int


@dataclass(frozen=True, slots=True)
class Source:
    # Of the events: `admit.kind`.
    kind: str
    model: Any
    # By which the rows of a mark are found.
    at: InstrumentedAttribute[datetime]
    event: Callable[[Any, Tenant], Event]
    # `event.outcome` of its events; without any where they have none.
    outcomes: tuple[str, ...] = ()
    # Columns that no event is made of: to read them is not for nothing.
    unused: tuple[str, ...] = ()
    # Which of the rows, where those of others lie between them.
    only: ColumnElement[bool] | None = None

    def rows(
        self, session: Session, tenant_id: TenantId, marks: Sequence[Row[Any]], *, begun: Begun | None, most: int
    ) -> Iterator[tuple[int, datetime, int, Any]]:
        """(mark, time, id, row) of what the marks name, in this order; behind what was `begun`."""
        behind = [_behind(mark, begun) for mark in marks]
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
            # The first is for partitions, the second for the index: what is before is not read.
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


def _behind(mark: Row[Any], begun: Begun | None) -> tuple[datetime, int]:
    """Time and id of the row behind which it goes on."""
    if begun is not None and begun.mark == mark.id:
        return begun.at, begun.row
    return mark.first_at, mark.first_row - 1


def _notes(kind: str, event: Callable[..., Event]) -> Source:
    return Source(
        kind, EventNote, EventNote.at, lambda row, tenant: event(row, tenant=tenant), only=EventNote.kind == kind
    )


# As marks name them: by the table, or by the kind of note.
SOURCES = {
    "auth_log": Source(
        "authentication",
        AuthLog,
        AuthLog.at,
        lambda row, tenant: authentication.from_log(row, tenant=tenant),
        outcomes=("success", "failure"),
        unused=("reply",),
    ),
    "accounting_log": Source(
        "accounting", AccountingLog, AccountingLog.at, lambda row, tenant: accounting.from_log(row, tenant=tenant)
    ),
    "coa_requests": Source(
        "coa",
        CoaRequest,
        CoaRequest.created_at,
        lambda row, tenant: coa.from_request(row, tenant=tenant),
        outcomes=("success", "failure"),
    ),
    "audit_log": Source("audit", AuditEntry, AuditEntry.at, lambda row, tenant: audit.from_log(row, tenant=tenant)),
    "session": _notes("session", sessions.from_note),
    "alarm": _notes("alarm", alarms.from_note),
    "endpoint": _notes("endpoint", endpoints.from_note),
    "certificate": _notes("certificate", certificates.from_note),
}
KINDS = tuple(source.kind for source in SOURCES.values())


def sources_of(kinds: Sequence[str], outcomes: Sequence[str]) -> list[str]:
    """What marks name for the events of these kinds and, where any is named, of one of these outcomes."""
    return [
        name
        for name, source in SOURCES.items()
        if source.kind in kinds and (not outcomes or set(outcomes) & set(source.outcomes))
    ]


def unheard(kinds: Sequence[str], outcomes: Sequence[str]) -> list[str]:
    """Those of the kinds of which nothing is sent, since none of their events has one of the outcomes."""
    heard = {SOURCES[name].kind for name in sources_of(kinds, outcomes)}
    return [kind for kind in kinds if kind not in heard]
