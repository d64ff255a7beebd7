"""Live sessions with their recorded decisions, read in pages to limit memory."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import TextClause, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session
from sqlalchemy.types import BigInteger, Text

from nac.cellformat.class_attribute import parse_decided_at
from nac.kit.ids import TenantId
from nac.sessions.decisions.recorded_requests import from_microseconds

# Number of sessions per transaction.
PAGE_ROWS = 1_000
# After a successful request about a session, Admit sends no other request for this time, because the accounting Stop
# can follow.
_JUST_NOW = "30 seconds"

_LIVE = """
SELECT s.id, s.started_at, coalesce(replace(s.mac::text, ':', ''), ''), s.identity, s.nas_id, s.nas_key,
    coalesce(host(s.nas_address), ''), s.class, (
        SELECT max(CASE WHEN c.state = 'queued' THEN now() ELSE coalesce(c.sent_at, now()) END) FROM coa_requests c
        WHERE c.tenant_id = s.tenant_id AND c.session_row = s.id AND c.kind <> 'change' AND (
            c.state = 'sending' OR (c.state = 'queued' AND c.redecision_id IS NULL)
            OR (c.state = 'acknowledged' AND c.ended_at > now() - interval '{just_now}')
        )
    )
FROM sessions s
WHERE s.tenant_id = :tenant AND s.stopped_at IS NULL AND {which}
ORDER BY s.started_at DESC, s.id DESC LIMIT :limit
""".replace("{just_now}", _JUST_NOW)


def _live_query(which: str) -> TextClause:
    return text(_LIVE.replace("{which}", which))


_FIRST = _live_query("true")
_AFTER = _live_query("(s.started_at, s.id) < (:cursor_at, :cursor_id)")
_ROWS = _live_query("s.id = ANY (:rows)").bindparams(bindparam("rows", type_=ARRAY(BigInteger())))
_NEWEST = text("SELECT coalesce(max(s.id), 0) FROM sessions s WHERE s.tenant_id = :tenant AND s.stopped_at IS NULL")
_LATER = text(
    "SELECT s.id FROM sessions s WHERE s.tenant_id = :tenant AND s.stopped_at IS NULL AND s.id > :newest "
    "ORDER BY s.id LIMIT :limit"
)
_COUNT = text("SELECT count(*) FROM sessions s WHERE s.tenant_id = :tenant AND s.stopped_at IS NULL")

# Live sessions of these devices, users or certificates. To find the devices of a certificate, the query reads the
# decisions since a day before the oldest live session.
_CONCERNED = text(
    """
SELECT s.id FROM sessions s
WHERE s.tenant_id = :tenant AND s.stopped_at IS NULL AND s.mac = ANY (CAST(:macs AS macaddr[]))
UNION
SELECT s.id FROM sessions s
WHERE s.tenant_id = :tenant AND s.stopped_at IS NULL AND s.identity_key = ANY (:users)
UNION
SELECT s.id FROM sessions s
WHERE s.tenant_id = :tenant AND s.stopped_at IS NULL AND s.mac = ANY (ARRAY(
    SELECT DISTINCT a.mac FROM auth_log a
    WHERE a.tenant_id = :tenant AND a.certificate_serial = ANY (:serials) AND a.permitted AND a.at >= (
        SELECT min(l.started_at) FROM sessions l WHERE l.tenant_id = :tenant AND l.stopped_at IS NULL
    ) - interval '1 day'
))
LIMIT :limit
"""
).bindparams(*(bindparam(name, type_=ARRAY(Text())) for name in ("macs", "users", "serials")))

# The decision that the session's Class names, or a later decision about the device at the same NAS: after a
# reauthentication, the NAS reports the new Class only with the next accounting record. The look-up is by device only,
# so that PostgreSQL never reads all decisions of a new tenant (docs/adr/0014).
_DECISIONS = text(
    """
SELECT asked.id, d.at, d.site_id, d.nas_id, d.nas_identifier, coalesce(host(d.nas_address), '') AS nas_address,
    d.method, d.identity, d.rule_id, d.vlan, d.reply, d.verdict, d.monitored, d.policy_id, d.policy_version,
    d.certificate_serial, d.tls_version, d.request
FROM unnest(
    CAST(:ids AS bigint[]), CAST(:macs AS macaddr[]), CAST(:moments AS timestamptz[]), CAST(:nases AS text[])
) AS asked (id, mac, moment, nas)
CROSS JOIN LATERAL (
    SELECT a.* FROM auth_log a
    WHERE a.tenant_id = :tenant AND a.mac = asked.mac AND a.at >= asked.moment AND a.permitted
        AND (a.at = asked.moment OR a.nas_identifier = asked.nas)
    ORDER BY a.at DESC LIMIT 1
) d
WHERE coalesce((
    SELECT true FROM auth_log b WHERE b.tenant_id = :tenant AND b.mac = asked.mac AND b.at = asked.moment LIMIT 1
), false)
"""
)

# Limit of counted sessions; higher counts make no difference. For each session, only sessions that began earlier count,
# so that a limit in a policy rejects the newest session.
_MAX_COUNTED = 1_000
_EARLIER = text(
    """
SELECT asked.id, (
    SELECT count(*) FROM (
        SELECT FROM sessions s WHERE s.tenant_id = :tenant AND s.stopped_at IS NULL AND s.mac = asked.mac
            AND (s.started_at, s.id) < (asked.started_at, asked.id) LIMIT :most
    ) earlier
), (
    SELECT count(*) FROM (
        SELECT FROM sessions s WHERE s.tenant_id = :tenant AND s.stopped_at IS NULL AND s.identity_key = named.name
            AND (s.started_at, s.id) < (asked.started_at, asked.id) LIMIT :most
    ) earlier
)
FROM unnest(CAST(:ids AS bigint[]), CAST(:names AS text[])) AS named (id, name)
JOIN sessions asked ON asked.tenant_id = :tenant AND asked.id = named.id
"""
)


class LiveSession(NamedTuple):
    id: int
    started_at: datetime
    # 12 hexadecimal digits or "".
    mac: str
    identity: str
    nas_id: UUID | None
    nas_key: str
    nas_address: str
    class_: str
    # Time of the last request about the session, if the request is open or has just ended.
    requested_at: datetime | None


class RecordedDecision(NamedTuple):
    """A decision and its request, with columns of nac.models.AuthLog."""

    at: datetime
    site_id: UUID | None
    nas_id: UUID | None
    nas_identifier: str
    nas_address: str
    method: str
    identity: str
    rule_id: str
    vlan: str
    reply: Sequence[Sequence[str]]
    verdict: str
    monitored: str
    policy_id: UUID | None
    policy_version: int
    certificate_serial: str
    tls_version: str
    request: Mapping[str, Sequence[Any]]


def read_page(
    session: Session, tenant_id: TenantId, cursor: tuple[datetime, int] | None, *, limit: int = PAGE_ROWS
) -> Sequence[LiveSession]:
    """Read a page, newest session first. `cursor` is the start and the id of the last session of the previous page."""
    parameters: dict[str, Any] = {"tenant": tenant_id, "limit": limit}
    if cursor is None:
        return [LiveSession(*row) for row in session.execute(_FIRST, parameters)]
    return [
        LiveSession(*row)
        for row in session.execute(_AFTER, parameters | {"cursor_at": cursor[0], "cursor_id": cursor[1]})
    ]


def read_rows(session: Session, tenant_id: TenantId, rows: Sequence[int]) -> Sequence[LiveSession]:
    """Read the sessions with these ids that are still live."""
    parameters = {"tenant": tenant_id, "rows": list(rows), "limit": len(rows)}
    return [LiveSession(*row) for row in session.execute(_ROWS, parameters)] if rows else []


def find_concerned(
    session: Session,
    tenant_id: TenantId,
    *,
    macs: Sequence[str],
    users: Sequence[str],
    serials: Sequence[str],
    limit: int,
) -> Sequence[int]:
    """Return ids of live sessions of these devices, users (lower case) and certificates (serials in hex)."""
    parameters = {
        "tenant": tenant_id,
        "macs": list(macs),
        "users": list(users),
        "serials": list(serials),
        "limit": limit,
    }
    return session.scalars(_CONCERNED, parameters).all()


def newest_session_row(session: Session, tenant_id: TenantId) -> int:
    return int(session.scalars(_NEWEST, {"tenant": tenant_id}).one())


def list_later_rows(session: Session, tenant_id: TenantId, newest: int, *, limit: int) -> Sequence[int]:
    """Return the ids of live sessions above the id `newest`, in ascending order."""
    return session.scalars(_LATER, {"tenant": tenant_id, "newest": newest, "limit": limit}).all()


def count_live(session: Session, tenant_id: TenantId) -> int:
    return int(session.scalars(_COUNT, {"tenant": tenant_id}).one())


def count_earlier(session: Session, tenant_id: TenantId, names: Mapping[int, str]) -> Mapping[int, tuple[int, int]]:
    """For each session, count the earlier live sessions of the same device, and of the same user name."""
    lowered = [name.lower() for name in names.values()]
    parameters = {"tenant": tenant_id, "ids": list(names), "names": lowered, "most": _MAX_COUNTED}
    return {row[0]: (row[1], row[2]) for row in session.execute(_EARLIER, parameters)} if names else {}


def load_decisions(
    session: Session, tenant_id: TenantId, sessions: Sequence[LiveSession]
) -> Mapping[int, RecordedDecision]:
    """Return the recorded decisions by session id.

    The result has no entry for a session without a recorded decision.
    """
    named = [(each, at) for each in sessions if each.mac and (at := parse_decided_at(each.class_)) is not None]
    if not named:
        return {}
    parameters = {
        "tenant": tenant_id,
        "ids": [each.id for each, _ in named],
        "macs": [each.mac for each, _ in named],
        "moments": [from_microseconds(at) for _, at in named],
        "nases": [each.nas_key.partition("|")[0] for each, _ in named],
    }
    return {row[0]: RecordedDecision(*row[1:]) for row in session.execute(_DECISIONS, parameters)}
