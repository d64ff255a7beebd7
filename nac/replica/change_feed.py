"""The change feed's end: what every cell has applied need not be kept."""

from sqlalchemy import CursorResult, text
from sqlalchemy.orm import Session

# A cell that was away for longer loads everything anew instead of asking for changes.
KEEP_DAYS = 7

# Cells without a position load everything anyway; those that are retired or silent for too long must not hold it up.
_PRUNE = text(
    """
    DELETE FROM replica_changes r
    WHERE r.at < now() - interval '1 day' AND NOT EXISTS (
        SELECT FROM cells c
        WHERE c.status <> 'retired' AND c.replica_position_at > now() - make_interval(days => :keep_days)
            AND NOT pg_visible_in_snapshot(r.xact, c.replica_position::pg_snapshot)
    )
    """
)


def prune_changes(session: Session) -> int:
    """Delete the changes of more than a day ago that all cells have applied; returns how many. As admit_worker, in
    PlatformScope."""
    result = session.execute(_PRUNE, {"keep_days": KEEP_DAYS})
    assert isinstance(result, CursorResult)
    return result.rowcount
