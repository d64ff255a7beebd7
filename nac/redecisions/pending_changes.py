"""What is to be looked at: changes as the feed told them, and what a second look is for."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import bindparam, insert, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session
from sqlalchemy.types import Text

from nac.clock import utc_now
from nac.db import by_place
from nac.ids import TenantId
from nac.models import RedecisionMark

# What concerns a device, a user or who showed a certificate; everything else concerns all. Each is looked at a second
# time, under another name, for sessions that became known late.
CONCERNING_NOUNS = ("endpoint", "user", "certificate", "external-status")
SECOND_LOOK_NOUNS = {f"{noun}-again": noun for noun in CONCERNING_NOUNS}
# Of our own: sessions of a later row than the key, and one whose NAS was being asked about it, which may come to
# nothing.
LATE_SESSIONS, BUSY_SESSION = "late", "session"
# What changed while a run looked at all sessions that was stopped then.
CHANGED_MEANWHILE = "meanwhile"
# Devices that were let in before a change may tell of their session so much later.
LATE_SECONDS = 60

# What the cell does not decide with yet is left, and for sessions that become known late what was journalled by then
# and is not stored yet.
_DUE_MARKS = text(
    """
WITH cell AS MATERIALIZED (
    SELECT c.replica_position::pg_snapshot AS position, c.shipped_until
    FROM slots s JOIN cells c ON c.id = s.cell_id WHERE s.tenant_id = :tenant
)
SELECT m.ctid::text FROM redecision_marks m LEFT JOIN cell ON true
WHERE m.tenant_id = :tenant AND m.due_at <= now()
    AND (m.xact IS NULL OR pg_visible_in_snapshot(m.xact, cell.position))
    AND (m.noun <> ALL (:late) OR cell.shipped_until IS NULL OR cell.shipped_until >= m.due_at)
ORDER BY m.due_at LIMIT :limit
"""
).bindparams(bindparam("late", type_=ARRAY(Text())))
_TAKE_MARKS = text("DELETE FROM redecision_marks WHERE ctid = ANY (CAST(:places AS tid[])) RETURNING noun, key")

_WAITING = text(
    "SELECT m.key FROM redecision_marks m WHERE m.tenant_id = :tenant AND m.noun = :noun AND m.key = ANY (:keys)"
).bindparams(bindparam("keys", type_=ARRAY(Text())))


def take_pending_changes(session: Session, tenant_id: TenantId, limit: int) -> Sequence[tuple[str, str]]:
    """(noun, key) of those that are due and that the cell decides with, taken off the list."""
    given = {"tenant": tenant_id, "limit": limit, "late": [LATE_SESSIONS, *SECOND_LOOK_NOUNS]}
    places = session.scalars(_DUE_MARKS, given).all()
    if not places:
        return []
    with by_place(session):
        return [(row[0], row[1]) for row in session.execute(_TAKE_MARKS, {"places": places})]


def add_pending_changes(
    session: Session, tenant_id: TenantId, marks: Sequence[tuple[str, str]], *, seconds: int
) -> None:
    """(noun, key) of each, due in so many seconds."""
    due_at = utc_now() + timedelta(seconds=seconds)
    rows = [{"tenant_id": tenant_id, "noun": noun, "key": key, "due_at": due_at} for noun, key in marks]
    if rows:
        session.execute(insert(RedecisionMark), rows)


def schedule_second_look(session: Session, tenant_id: TenantId, rows: Sequence[int]) -> None:
    """At these sessions, once their NASes have answered what they are being asked; once, however often it is asked."""
    if not rows:
        return
    keys = [str(row) for row in rows]
    waiting = set(session.scalars(_WAITING, {"tenant": tenant_id, "noun": BUSY_SESSION, "keys": keys}))
    add_pending_changes(
        session, tenant_id, [(BUSY_SESSION, key) for key in keys if key not in waiting], seconds=LATE_SECONDS
    )
