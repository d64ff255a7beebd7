"""Sessions that begin, or go on after all, although their device is refused by now: it was blocked, or its certificate
revoked, before they were heard. Whoever did that found no session to end."""

from collections.abc import Sequence

import psycopg

# Tenant, station and Class.
Begun = tuple[str, str, str]

_END = "SELECT end_refused_sessions(%s::uuid[], %s::macaddr[], %s::text[])"


def end_refused(cursor: psycopg.Cursor, begun: Sequence[Begun]) -> None:
    """In the transaction that stores them, so exactly once."""
    if begun:
        cursor.execute(_END, tuple(map(list, zip(*begun, strict=True))))
