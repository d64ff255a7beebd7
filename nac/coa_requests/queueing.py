"""What is asked of NASes about live sessions (RFC 5176): a row for each, before the cell's agent sends anything."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, CursorResult, TextClause, any_, bindparam, cast, func, select, text, update
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, MACADDR
from sqlalchemy.orm import Session
from sqlalchemy.types import BigInteger, Text

from nac.clock import utc_now
from nac.errors import Conflict
from nac.ids import TenantId
from nac.models import CoaRequest
from nac.models.coa_request import CoaKind, CoaState

# Of one tenant, of what people ask for. What follows from a revocation or a block is always taken: each live session is
# asked about once at a time.
MOST_WAITING = 20_000
WAITING: tuple[CoaState, ...] = ("queued", "sending")
# Reasons, beside those of certificates.
BLOCKED, REQUESTED, REDECIDED = "endpoint-blocked", "requested", "redecided"

# What follows from a revocation or a block waits for a day: a controller with 20,000 sessions takes half an hour.
_INSERT = """
INSERT INTO coa_requests (
    tenant_id, session_row, session_id, nas_id, nas_address, nas_key, nas_port, mac, identity, framed_ip,
    priority, kind, reason, asked_by, after_xact, expires_at, attributes, certificate_serial, redecision_id
)
SELECT s.tenant_id, s.id, s.session_id, s.nas_id, s.nas_address, s.nas_key, s.nas_port, s.mac, s.identity, s.framed_ip,
    -- NASes in turn: who has many sessions at one does not hold up the others.
    :priority + row_number() OVER (PARTITION BY s.nas_key ORDER BY s.id) - 1, {asked}
ORDER BY s.id
-- Each reason has a request of its own: it is taken back, or comes to nothing, without the others. Asked again for the
-- same reason, it is the later one's.
ON CONFLICT (tenant_id, session_row, kind, reason) WHERE state = 'queued' AND kind <> 'change' DO UPDATE SET
    asked_by = excluded.asked_by, after_xact = coalesce(excluded.after_xact, coa_requests.after_xact),
    expires_at = excluded.expires_at, due_at = least(coa_requests.due_at, now()),
    certificate_serial = excluded.certificate_serial, redecision_id = excluded.redecision_id
RETURNING id
"""
# What follows from re-decisions comes behind all else.
REDECIDED_PRIORITY = 1_000_000


# The certificate that admitted a device is the one it showed when it was last let in. No session is older than the
# oldest that is live, and its authentication came less than a day before its Start.
_SHOWN = """
    WITH shown AS MATERIALIZED (
        SELECT DISTINCT a.mac FROM auth_log a
        WHERE a.tenant_id = :tenant AND a.certificate_serial = ANY (:serials) AND a.permitted AND a.mac IS NOT NULL
            AND a.at >= (
                SELECT min(s.started_at) FROM sessions s WHERE s.tenant_id = :tenant AND s.stopped_at IS NULL
            ) - interval '1 day'
    )
"""
_OF_CERTIFICATES = text(
    _SHOWN
    + _INSERT.replace(
        "{asked}",
        """
    'disconnect', :reason, :asked_by, pg_current_xact_id(), now() + interval '1 day', '[]', last.certificate_serial,
    NULL
    FROM shown
    JOIN sessions s ON s.tenant_id = :tenant AND s.mac = shown.mac AND s.stopped_at IS NULL
    CROSS JOIN LATERAL (
        SELECT a.certificate_serial FROM auth_log a
        WHERE a.tenant_id = :tenant AND a.mac = s.mac AND a.permitted ORDER BY a.at DESC LIMIT 1
    ) last
    WHERE last.certificate_serial = ANY (:serials)
    """,
    )
).bindparams(bindparam("serials", type_=ARRAY(Text())))
_OF_DEVICES = text(
    _INSERT.replace(
        "{asked}",
        """
    'disconnect', :reason, :asked_by, pg_current_xact_id(), now() + interval '1 day', '[]', '', NULL
    FROM sessions s WHERE s.tenant_id = :tenant AND s.mac = ANY (CAST(:macs AS macaddr[])) AND s.stopped_at IS NULL
    """,
    )
).bindparams(bindparam("macs", type_=ARRAY(Text())))
_OF_SESSIONS = text(
    _INSERT.replace(
        "{asked}",
        """
    :kind, :reason, :asked_by, CAST(:after AS xid8), now() + interval '15 minutes', :attributes, '', :redecision
    FROM sessions s WHERE s.tenant_id = :tenant AND s.id = ANY (:rows) AND s.stopped_at IS NULL
    """,
    )
).bindparams(
    bindparam("rows", type_=ARRAY(BigInteger())),
    bindparam("attributes", type_=JSONB()),
    bindparam("redecision", type_=BigInteger()),
    bindparam("after", type_=Text()),
)


_WITHDRAW_OUTDATED = text(
    """
UPDATE coa_requests c SET state = 'withdrawn', ended_at = now(), detail = 'It is decided otherwise by now.'
FROM unnest(CAST(:rows AS bigint[]), CAST(:kinds AS text[])) AS wanted (session_row, kind)
WHERE c.tenant_id = :tenant AND c.session_row = wanted.session_row AND c.state = 'queued'
    AND c.redecision_id IS NOT NULL AND c.kind <> wanted.kind
"""
).bindparams(bindparam("rows", type_=ARRAY(BigInteger())), bindparam("kinds", type_=ARRAY(Text())))


def queue_disconnects(
    session: Session, *, tenant_id: TenantId, serials: Sequence[bytes], reason: str, asked_by: str = ""
) -> int:
    """Ask for the end of the live sessions that certificates of these serial numbers opened; returns how many.

    `reason` is a code of nac.reasons. A device whose accounting has not begun is not found: it is refused when it comes
    again. Sent once the cell knows what this transaction changes.
    """
    told = {"tenant": tenant_id, "serials": [serial.hex() for serial in serials]}
    return len(_insert(session, _OF_CERTIFICATES, told | {"reason": reason, "asked_by": asked_by}))


def queue_blocks(session: Session, *, tenant_id: TenantId, macs: Sequence[str], asked_by: str) -> int:
    """As `queue_disconnects`, of the live sessions of these devices (12 hex digits), which are blocked."""
    told = {"tenant": tenant_id, "macs": list(macs), "reason": BLOCKED, "asked_by": asked_by}
    return len(_insert(session, _OF_DEVICES, told))


def queue_for_sessions(
    session: Session,
    *,
    tenant_id: TenantId,
    rows: Sequence[int],
    kind: CoaKind,
    reason: str,
    asked_by: str,
    attributes: Sequence[Mapping[str, Any]] = (),
    redecision: int | None = None,
    after: str | None = None,
) -> Sequence[int]:
    """Ask this about those of the sessions `rows` that are live, at once; returns the ids of the requests.

    One that waits already is that of `reason` anew; changes are asked for one after the other.

    `redecision` is what it follows from, where it follows from one (nac.redecisions); `after` a transaction that the
    cell must know first.

    Raises Conflict where too much waits.
    """
    waiting = session.scalar(
        select(func.count()).where(
            CoaRequest.tenant_id == tenant_id,
            CoaRequest.state.in_(WAITING),
            CoaRequest.reason.in_((REQUESTED, REDECIDED)),
        )
    )
    if (waiting or 0) + len(rows) > MOST_WAITING:
        raise Conflict(
            f"{waiting} requests to NASes wait already.", remedy="See ./admit coa list; each is tried or expires soon."
        )
    told = {"tenant": tenant_id, "rows": list(rows), "kind": kind, "reason": reason, "asked_by": asked_by}
    told |= {"attributes": [dict(each) for each in attributes], "redecision": redecision, "after": after}
    told["priority"] = 0 if redecision is None else REDECIDED_PRIORITY
    return _insert(session, _OF_SESSIONS, told)


def _insert(session: Session, statement: TextClause, told: Mapping[str, Any]) -> Sequence[int]:
    return session.scalars(statement, {"priority": 0} | dict(told)).all()


def withdraw_redecision(session: Session, *, tenant_id: TenantId, redecision: int, detail: str) -> int:
    """What it asked and was not answered yet is not sent any more; returns how many."""
    result = session.execute(
        update(CoaRequest)
        .where(
            CoaRequest.tenant_id == tenant_id,
            CoaRequest.redecision_id == redecision,
            CoaRequest.state.in_(WAITING),
        )
        .values(state="withdrawn", ended_at=utc_now(), detail=detail)
    )
    assert isinstance(result, CursorResult)
    return result.rowcount


def withdraw_outdated(session: Session, *, tenant_id: TenantId, wanted: Mapping[int, str]) -> None:
    """What re-decisions queued about these sessions (`sessions.id`) is not sent where another kind is wanted now.

    "" wants none. What people asked for, and what follows from a block or a revocation, stays.
    """
    told = {"tenant": tenant_id, "rows": list(wanted), "kinds": list(wanted.values())}
    if wanted:
        session.execute(_WITHDRAW_OUTDATED, told)


def withdraw(session: Session, *, tenant_id: TenantId, serials: Sequence[bytes]) -> None:
    """The certificates are good again: what was not answered yet is not sent any more."""
    shown = cast([serial.hex() for serial in serials], ARRAY(Text))
    _withdraw(session, tenant_id, CoaRequest.certificate_serial == any_(shown))


def withdraw_blocks(session: Session, *, tenant_id: TenantId, macs: Sequence[str]) -> None:
    """These devices (12 hex digits) are blocked no more: what was asked for that and not answered yet is not sent."""
    _withdraw(session, tenant_id, (CoaRequest.mac == any_(cast(macs, ARRAY(MACADDR)))) & (CoaRequest.reason == BLOCKED))


def _withdraw(session: Session, tenant_id: TenantId, which: ColumnElement[bool]) -> None:
    session.execute(
        update(CoaRequest)
        .where(CoaRequest.tenant_id == tenant_id, CoaRequest.state.in_(WAITING), which)
        .values(state="withdrawn", ended_at=utc_now(), detail="What it followed from was taken back.")
    )
