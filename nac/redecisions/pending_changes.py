"""Marks: rows that record changes. A mark starts a re-decision, or a second check of sessions."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import bindparam, insert, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session
from sqlalchemy.types import Text

from nac.kit.clock import utc_now
from nac.kit.db import force_ctid_scan
from nac.kit.ids import TenantId
from nac.models import RedecisionMark

# Kinds of objects (nouns) whose changes concern only the sessions of a device, user or certificate. All other changes
# concern every session. Admit later checks the sessions a second time (SECOND_LOOK_NOUNS), because it learns of some
# sessions late.
CONCERNING_NOUNS = ("endpoint", "user", "certificate", "external-status")


SECOND_LOOK_NOUNS = {f"{noun}-again": noun for noun in CONCERNING_NOUNS}


# Nouns of marks that stand for sessions, not for changes. "late": all sessions whose id is higher than the mark's key.
# "session": one session with an open request that may fail.
LATE_SESSIONS, BUSY_SESSION = "late", "session"


# Noun of changes that arrived while a run checked all sessions, before a user stopped the run.
CHANGED_MEANWHILE = "meanwhile"


# Seconds after a change until Admit knows the sessions of all logins before the change.
LATE_SECONDS = 60


# Skips changes that the cell has not applied. Skips late checks until the cell's journal is stored up to their time.
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
    """Delete due marks whose changes the cell has applied.

    Returns the kind of object (noun) and the key of each deleted mark.
    """
    parameters = {"tenant": tenant_id, "limit": limit, "late": [LATE_SESSIONS, *SECOND_LOOK_NOUNS]}
    places = session.scalars(_DUE_MARKS, parameters).all()
    if not places:
        return []
    with force_ctid_scan(session):
        return [(row[0], row[1]) for row in session.execute(_TAKE_MARKS, {"places": places})]


def add_pending_changes(
    session: Session, tenant_id: TenantId, marks: Sequence[tuple[str, str]], *, seconds: int
) -> None:
    """Record changes: pairs of a kind of object (noun) and a key. Admit processes the changes after `seconds`."""
    due_at = utc_now() + timedelta(seconds=seconds)
    rows = [{"tenant_id": tenant_id, "noun": noun, "key": key, "due_at": due_at} for noun, key in marks]
    if rows:
        session.execute(insert(RedecisionMark), rows)


def schedule_second_look(session: Session, tenant_id: TenantId, rows: Sequence[int]) -> None:
    """Schedule another check of these sessions, for the time when their pending requests to NASes have ended.

    If a session already waits for a check, schedules no second check.
    """
    if not rows:
        return
    keys = [str(row) for row in rows]
    waiting = set(session.scalars(_WAITING, {"tenant": tenant_id, "noun": BUSY_SESSION, "keys": keys}))
    add_pending_changes(
        session, tenant_id, [(BUSY_SESSION, key) for key in keys if key not in waiting], seconds=LATE_SECONDS
    )
