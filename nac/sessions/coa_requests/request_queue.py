"""Queue of requests to NASes about live sessions (RFC 5176), one row for each request. The cell's agent sends them."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, CursorResult, TextClause, any_, bindparam, cast, func, select, text, update
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, MACADDR
from sqlalchemy.orm import Session
from sqlalchemy.types import BigInteger, Text

from nac.kit.advice import Advice
from nac.kit.clock import utc_now
from nac.kit.errors import Conflict
from nac.kit.ids import TenantId
from nac.models import CoaRequest
from nac.models.coa_request import CoaKind, CoaState

# Maximum number of a tenant's waiting requests from users and re-decisions. Admit always accepts requests after a
# revocation or block, because they are limited by the number of live sessions.
MAX_WAITING = 20_000
WAITING_STATES: tuple[CoaState, ...] = ("queued", "sending")
# Reasons of requests. After a revocation, the reason is the status of the certificate, such as `certificate-revoked`.
BLOCKED_REASON, REQUESTED_REASON, REDECIDED_REASON = "endpoint-blocked", "requested", "redecided"

# Requests after a revocation or block expire only after a day, because the requests for a controller with 20,000
# sessions take half an hour.
_INSERT_SQL = """
INSERT INTO coa_requests (
    tenant_id, session_row, session_id, nas_id, nas_address, nas_key, nas_port, mac, identity, framed_ip,
    priority, kind, reason, requested_by, after_xact, expires_at, attributes, certificate_serial, redecision_id
)
SELECT s.tenant_id, s.id, s.session_id, s.nas_id, s.nas_address, s.nas_key, s.nas_port, s.mac, s.identity, s.framed_ip,
    -- Interleave the requests to different NASes, so that many sessions at one NAS do not delay other NASes.
    :priority + row_number() OVER (PARTITION BY s.nas_key ORDER BY s.id) - 1, {asked}
ORDER BY s.id
-- One waiting request per reason, so that Admit can withdraw requests by reason. A repeated request updates this row.
ON CONFLICT (tenant_id, session_row, kind, reason) WHERE state = 'queued' AND kind <> 'change' DO UPDATE SET
    requested_by = excluded.requested_by, after_xact = coalesce(excluded.after_xact, coa_requests.after_xact),
    expires_at = excluded.expires_at, due_at = least(coa_requests.due_at, now()),
    certificate_serial = excluded.certificate_serial, redecision_id = excluded.redecision_id
RETURNING id
"""
# Requests of re-decisions have the lowest priority.
REDECIDED_PRIORITY = 1_000_000


# Devices that logged in with one of these certificates. A relevant login is at most a day older than the oldest live
# session.
_SHOWN_CTE = """
    WITH shown AS MATERIALIZED (
        SELECT DISTINCT a.mac FROM auth_log a
        WHERE a.tenant_id = :tenant AND a.certificate_serial = ANY (:serials) AND a.permitted AND a.mac IS NOT NULL
            AND a.at >= (
                SELECT min(s.started_at) FROM sessions s WHERE s.tenant_id = :tenant AND s.stopped_at IS NULL
            ) - interval '1 day'
    )
"""
_INSERT_FOR_CERTIFICATES = text(
    _SHOWN_CTE
    + _INSERT_SQL.replace(
        "{asked}",
        """
    'disconnect', :reason, :requested_by, pg_current_xact_id(), now() + interval '1 day', '[]', last.certificate_serial,
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
_INSERT_FOR_DEVICES = text(
    _INSERT_SQL.replace(
        "{asked}",
        """
    'disconnect', :reason, :requested_by, pg_current_xact_id(), now() + interval '1 day', '[]', '', NULL
    FROM sessions s WHERE s.tenant_id = :tenant AND s.mac = ANY (CAST(:macs AS macaddr[])) AND s.stopped_at IS NULL
    """,
    )
).bindparams(bindparam("macs", type_=ARRAY(Text())))
_INSERT_FOR_SESSIONS = text(
    _INSERT_SQL.replace(
        "{asked}",
        """
    :kind, :reason, :requested_by, CAST(:after AS xid8), now() + interval '15 minutes', :attributes, '', :redecision
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
UPDATE coa_requests c SET state = 'withdrawn', ended_at = now(), detail = 'The decision has changed.'
FROM unnest(CAST(:rows AS bigint[]), CAST(:kinds AS text[])) AS wanted (session_row, kind)
WHERE c.tenant_id = :tenant AND c.session_row = wanted.session_row AND c.state = 'queued'
    AND c.redecision_id IS NOT NULL AND c.kind <> wanted.kind
"""
).bindparams(bindparam("rows", type_=ARRAY(BigInteger())), bindparam("kinds", type_=ARRAY(Text())))


def queue_disconnects(
    session: Session, *, tenant_id: TenantId, serials: Sequence[bytes], reason: str, requested_by: str = ""
) -> int:
    """Queue Disconnect-Requests for live sessions of devices that used these certificates. Returns the number of
    requests.

    `reason` is a code of `REASONS`. If the NAS of a device sent no accounting Start, Admit has no session to
    disconnect, and rejects the device when it next authenticates. The agent sends the requests after the cell has
    applied this transaction.
    """
    parameters = {"tenant": tenant_id, "serials": [serial.hex() for serial in serials]}
    return len(
        _insert_requests(
            session, _INSERT_FOR_CERTIFICATES, parameters | {"reason": reason, "requested_by": requested_by}
        )
    )


def queue_block_disconnects(session: Session, *, tenant_id: TenantId, macs: Sequence[str], requested_by: str) -> int:
    """Queue Disconnect-Requests for live sessions of blocked devices. `macs` have 12 hexadecimal digits."""
    parameters = {"tenant": tenant_id, "macs": list(macs), "reason": BLOCKED_REASON, "requested_by": requested_by}
    return len(_insert_requests(session, _INSERT_FOR_DEVICES, parameters))


def queue_session_requests(
    session: Session,
    *,
    tenant_id: TenantId,
    rows: Sequence[int],
    kind: CoaKind,
    reason: str,
    requested_by: str,
    attributes: Sequence[Mapping[str, Any]] = (),
    redecision: int | None = None,
    after: str | None = None,
) -> Sequence[int]:
    """Queue a request for each live session in `rows`. Returns the ids of the requests.

    If a request of the same kind with the same `reason` already waits for the session, Admit renews that request. Admit
    never merges requests of kind `change`: the agent sends one after the other. `redecision` is the re-decision that
    causes the requests (nac.redecisions). `after` is a transaction that the cell must apply before the agent sends the
    requests. Raises Conflict if the queue is full.
    """
    waiting = session.scalar(
        select(func.count()).where(
            CoaRequest.tenant_id == tenant_id,
            CoaRequest.state.in_(WAITING_STATES),
            CoaRequest.reason.in_((REQUESTED_REASON, REDECIDED_REASON)),
        )
    )
    if (waiting or 0) + len(rows) > MAX_WAITING:
        raise Conflict(
            f"Too many requests to NASes are waiting: {waiting}.",
            remedy=Advice("Try again later. List the waiting requests.", "listCoaRequests"),
        )
    parameters = {"tenant": tenant_id, "rows": list(rows), "kind": kind, "reason": reason, "requested_by": requested_by}
    parameters |= {"attributes": [dict(each) for each in attributes], "redecision": redecision, "after": after}
    parameters["priority"] = 0 if redecision is None else REDECIDED_PRIORITY
    return _insert_requests(session, _INSERT_FOR_SESSIONS, parameters)


def _insert_requests(session: Session, statement: TextClause, parameters: Mapping[str, Any]) -> Sequence[int]:
    return session.scalars(statement, {"priority": 0} | dict(parameters)).all()


def withdraw_redecision(session: Session, *, tenant_id: TenantId, redecision: int, detail: str) -> int:
    """Withdraw all queued or sent requests of a re-decision that have no response yet.

    Returns the number of withdrawn requests.
    """
    result = session.execute(
        update(CoaRequest)
        .where(
            CoaRequest.tenant_id == tenant_id,
            CoaRequest.redecision_id == redecision,
            CoaRequest.state.in_(WAITING_STATES),
        )
        .values(state="withdrawn", ended_at=utc_now(), detail=detail)
    )
    assert isinstance(result, CursorResult)
    return result.rowcount


def withdraw_outdated(session: Session, *, tenant_id: TenantId, wanted: Mapping[int, str]) -> None:
    """Withdraw queued requests of re-decisions whose kind differs from the new kind.

    `wanted` has the new kind of request by `sessions.id`; "" withdraws all queued requests of re-decisions
    about the session. Keeps manual requests, and requests after a block or revocation.
    """
    parameters = {"tenant": tenant_id, "rows": list(wanted), "kinds": list(wanted.values())}
    if wanted:
        session.execute(_WITHDRAW_OUTDATED, parameters)


def withdraw_for_certificates(session: Session, *, tenant_id: TenantId, serials: Sequence[bytes]) -> None:
    """Withdraw the unanswered requests about these certificates, because the certificates are valid again."""
    recorded = cast([serial.hex() for serial in serials], ARRAY(Text))
    _withdraw_where(session, tenant_id, CoaRequest.certificate_serial == any_(recorded))


def withdraw_block_disconnects(session: Session, *, tenant_id: TenantId, macs: Sequence[str]) -> None:
    """Withdraw the unanswered requests about these devices, because the devices are no longer blocked.

    `macs` have 12 hexadecimal digits.
    """
    _withdraw_where(
        session, tenant_id, (CoaRequest.mac == any_(cast(macs, ARRAY(MACADDR)))) & (CoaRequest.reason == BLOCKED_REASON)
    )


def _withdraw_where(session: Session, tenant_id: TenantId, which: ColumnElement[bool]) -> None:
    session.execute(
        update(CoaRequest)
        .where(CoaRequest.tenant_id == tenant_id, CoaRequest.state.in_(WAITING_STATES), which)
        .values(state="withdrawn", ended_at=utc_now(), detail="The block or revocation was undone.")
    )
