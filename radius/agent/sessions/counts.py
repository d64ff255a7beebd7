"""Counts of live sessions for each device and for each user name.

The replica contains these counts for tenants whose policies use them.

The shipper announces each start and end in the change feed, in the transaction that stores the session. A recount every
`RECOUNT_SECONDS` covers all other cases. Examples are a session that begins with an Interim-Update, a restarted NAS,
and sessions that change while a policy begins to use counts.
"""

import time
from collections.abc import Collection, Iterable, Mapping

import psycopg

from nac.cellformat.replica.writer import WriteBatch
from nac.kit.mac import normalise_mac
from radius.agent.sessions.ends import SessionIdentity

SESSION_NOUN = "session"
RECOUNT_SECONDS = 60.0
# Delay of another recount after a tenant's policies begin to use counts. Batches that are running at this time do not
# announce changes of the tenant's sessions.
SETTLE_SECONDS = 2.0

_COUNTING_TENANTS = """
SELECT DISTINCT p.tenant_id::text
FROM policies p
JOIN policy_versions v ON v.policy_id = p.id AND v.tenant_id = p.tenant_id AND v.number = p.published_version
WHERE v.document::text LIKE '%"session.count.%'
"""
_COUNTS_OF_KEYS = "SELECT key, live FROM live_session_counts(%s, %s::macaddr[], %s)"
_COUNTS_OF_TENANT = """
SELECT key, count(*) FROM sessions CROSS JOIN LATERAL (
    VALUES ('m' || replace(mac::text, ':', '')), ('u' || nullif(identity_key, ''))
) named (key)
WHERE tenant_id = %(tenant)s AND stopped_at IS NULL AND key IS NOT NULL GROUP BY key
"""
NOTIFY_COUNTS = "SELECT tell_session_changes(%s::uuid[], %s)"


def address_key(mac: str) -> str:
    return f"m{mac}"


def name_key(identity: str) -> str:
    """Key of the count of a user. The name is in lower case, as in the results of PostgreSQL's lower()."""
    return f"u{identity.lower()}"


def count_keys(sessions: Iterable[SessionIdentity], tenants: frozenset[str]) -> list[tuple[str, str]]:
    """Return tenant and key of each count that these sessions change, only for the tenants in `tenants`."""
    return [
        (tenant_id, key)
        for tenant_id, station, name in sessions
        if tenant_id in tenants
        for key in (address_key(normalise_mac(station)) if station else "", name_key(name) if name else "")
        if key
    ]


class SessionCounts:
    """Updates the counts of live sessions.

    Any thread may read `counted`. Only the thread of ReplicaSync may use the other members.
    """

    def __init__(self) -> None:
        # Ids of the tenants whose policies use counts.
        self.counted: frozenset[str] = frozenset()
        self._due_at = 0.0

    def request_recount(self) -> None:
        """Schedule a recount after a policy change or a full load."""
        self._due_at = 0.0

    def recount_if_due(self, cursor: psycopg.Cursor, batch: WriteBatch, tenants: Mapping[str, int]) -> None:
        """Recount if a recount is due. `tenants` contains the number of each tenant of the cell, by tenant id."""
        now = time.monotonic()
        if now < self._due_at:
            return
        asking = (
            frozenset(tenant_id for (tenant_id,) in cursor.execute(_COUNTING_TENANTS.encode()).fetchall())
            & tenants.keys()
        )
        for tenant_id in (asking | self.counted) & tenants.keys():
            batch.clear_session_counts(tenants[tenant_id])
        for tenant_id in asking:
            for key, live in cursor.execute(_COUNTS_OF_TENANT, {"tenant": tenant_id}):
                batch.put_session_count(tenants[tenant_id], key, live)
        self._due_at = now + (RECOUNT_SECONDS if asking == self.counted else SETTLE_SECONDS)
        self.counted = asking

    def refresh(
        self, cursor: psycopg.Cursor, batch: WriteBatch, tenant_id: str, number: int, keys: Collection[str]
    ) -> None:
        """Update the counts of these keys from the current sessions."""
        gone = set(keys)
        macs = [key[1:] for key in keys if key[:1] == "m"]
        names = [key[1:] for key in keys if key[:1] == "u"]
        for key, live in cursor.execute(_COUNTS_OF_KEYS, (tenant_id, macs, names)):
            batch.put_session_count(number, key, live)
            gone.discard(key)
        for key in gone:
            batch.delete_session_count(number, key)
