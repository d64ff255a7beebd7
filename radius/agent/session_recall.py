"""Sessions that are in the history already, put back for records that come after more than two days.

Only what was in quarantine does: what the shipper itself reads late, it reads by the time of the journal.
"""

from datetime import UTC, datetime, timedelta

import psycopg

from radius.agent.stays import SAME_START_SECONDS, SessionBatch

_SECOND = 1_000_000
_RECALL = "SELECT recall_sessions(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::timestamptz[], %s::timestamptz[])"


def recall(cursor: psycopg.Cursor, batch: SessionBatch) -> None:
    """What a batch may be about, to be merged into; session_keeping.py moves it away again."""
    near = timedelta(seconds=SAME_START_SECONDS)
    wanted = []
    for key, stay in batch.keyed_stays():
        began = datetime.fromtimestamp(stay.started_at / _SECOND, UTC)
        earliest = "-infinity" if stay.start_unknown else (began - near).isoformat()
        wanted.append((*key, earliest, (began + near).isoformat()))
    if wanted:
        cursor.execute(_RECALL, tuple(map(list, zip(*wanted, strict=True))))
