"""Moves sessions back from the history for records that are more than two days late.

Only quarantined records need it: the shipper itself works by the time of the journal.
"""

from datetime import UTC, datetime, timedelta

import psycopg

from radius.agent.session_batch import SAME_START_SECONDS, SessionBatch

_SECOND = 1_000_000
_RECALL = "SELECT recall_sessions(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::timestamptz[], %s::timestamptz[])"


def recall_sessions(cursor: psycopg.Cursor, batch: SessionBatch) -> None:
    """Recall the sessions that a batch may update. session_keeping.py moves them away again."""
    near = timedelta(seconds=SAME_START_SECONDS)
    wanted = []
    for key, stay in batch.keyed_updates():
        began = datetime.fromtimestamp(stay.started_at / _SECOND, UTC)
        earliest = "-infinity" if stay.start_unknown else (began - near).isoformat()
        wanted.append((*key, earliest, (began + near).isoformat()))
    if wanted:
        cursor.execute(_RECALL, tuple(map(list, zip(*wanted, strict=True))))
