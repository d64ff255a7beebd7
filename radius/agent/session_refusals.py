"""Ends sessions that begin or continue although their device was blocked or its certificate revoked before: at that
time there was no session to end."""

from collections.abc import Sequence

import psycopg

# Tenant, MAC address and Class.
StartedSession = tuple[str, str, str]

_END = "SELECT end_refused_sessions(%s::uuid[], %s::macaddr[], %s::text[])"


def end_refused_sessions(cursor: psycopg.Cursor, begun: Sequence[StartedSession]) -> None:
    """End them in the transaction that stores them, so exactly once."""
    if begun:
        cursor.execute(_END, tuple(map(list, zip(*begun, strict=True))))
