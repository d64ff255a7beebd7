"""Deletes changes from the change feed after all cells have applied the changes."""

from sqlalchemy import CursorResult, text
from sqlalchemy.orm import Session

# Changes are kept for at most this time. A cell that was offline for longer must reload all its data.
KEEP_DAYS = 7

# Ignores cells without a position (they reload everything), retired cells, and cells that are silent for too long.
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
    """Delete changes that are older than a day and that all cells have applied.

    Returns the number of deleted changes. Ignores retired cells, and cells that have been silent for KEEP_DAYS.

    Needs the role admit_worker and PlatformScope.
    """
    result = session.execute(_PRUNE, {"keep_days": KEEP_DAYS})
    assert isinstance(result, CursorResult)
    return result.rowcount
