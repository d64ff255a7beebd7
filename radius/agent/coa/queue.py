"""The agent's queue of requests to NASes.

The agent claims a request, records each packet before it sends the packet, and stores the result.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from sqlalchemy import Engine

from nac.cellformat.replica.records import rotation_context
from nac.kit.db import CellScope, driver_connection, session_scope
from nac.kit.ids import CellId
from nac.kit.radius_packet import DISCONNECT_REQUEST
from nac.kit.secrets import Sealer, SecretsError
from nac.models import CoaRequest
from nac.models.coa_request import CoaState
from nac.sessions.coa_requests.request_queue import REDECIDED_REASON, REQUESTED_REASON

# Seconds until another agent may claim the request. Longer than the pause between two packets of a request, so an agent
# that writes nothing for this time has died.
LEASE_SECONDS = 20
MAX_TAKINGS = 4
# Seconds until the first retry of a request about a blocked device or a revoked certificate. The pause doubles until
# the request expires.
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 60, 1_800
# Time after a Disconnect-ACK in which the session's Accounting Stop may still arrive.
_JUST_ENDED = "30 seconds"

# The columns are fields of nac.models.CoaRequest.
_RETURN_ENDED = """
RETURNING id, tenant_id, created_at, kind, requested_by, session_row, session_id, nas_id,
    host(nas_address) AS nas_address, nas_key, nas_port, replace(mac::text, ':', '') AS mac, identity,
    host(framed_ip) AS framed_ip, reason, state, step, attempts, sent_at, ended_at, answer_code, error_cause, detail
"""
_EXPIRE = (
    """
UPDATE coa_requests SET ended_at = now(), state = CASE WHEN retries > 0 THEN 'unanswered' ELSE 'expired' END,
    detail = CASE WHEN retries > 0 THEN detail ELSE 'The request waited too long in the queue.' END
WHERE state IN ('queued', 'sending') AND expires_at < now() AND due_at <= now()
"""
    + _RETURN_ENDED
)
_GIVE_UP = (
    """
UPDATE coa_requests SET state = 'unanswered', ended_at = now(),
    detail = 'The agent that sent the request ended several times before a response came.'
WHERE state = 'sending' AND due_at <= now() AND takings >= %(takings)s + retries
"""
    + _RETURN_ENDED
)
# Take a few requests of each tenant and one request of each NAS. Skip NASes and tenants at their limit. Take a request
# only if the cell already has the change that caused the request. Take only one request of a session at a time, so that
# changes keep their order and a session gets only one Disconnect.
_TAKE = r"""
WITH chosen AS (
    SELECT one.id FROM (
        SELECT waiting.*,
            row_number() OVER (PARTITION BY waiting.tenant_id, waiting.nas_key ORDER BY waiting.priority, waiting.id)
        FROM slots s JOIN cells ON cells.id = s.cell_id CROSS JOIN LATERAL (
            SELECT c.id, c.tenant_id, c.nas_key, c.priority FROM coa_requests c
            WHERE c.tenant_id = s.tenant_id AND c.state IN ('queued', 'sending') AND c.due_at <= now()
                AND c.expires_at >= now() AND c.takings < %(takings)s + c.retries
                AND c.tenant_id::text || c.nas_key <> ALL (%(busy)s)
                AND (c.after_xact IS NULL OR pg_visible_in_snapshot(c.after_xact, cells.replica_position::pg_snapshot))
                -- A subquery instead of an anti-join: PostgreSQL would compute the anti-join for all waiting requests.
                AND coalesce((
                    SELECT false FROM coa_requests o
                    WHERE o.session_row = c.session_row AND c.state = 'queued' AND (
                        o.state = 'sending'
                        OR (o.state = 'queued' AND c.kind = 'change' AND o.kind = 'change' AND o.id < c.id)
                    ) LIMIT 1
                ), true)
            ORDER BY c.priority, c.id LIMIT %(each)s FOR UPDATE SKIP LOCKED
        ) waiting
        WHERE s.cell_id = %(cell)s AND s.tenant_id IS NOT NULL AND s.tenant_id <> ALL (%(full)s::uuid[])
    ) one WHERE one.row_number = 1
    ORDER BY random() LIMIT %(room)s
), taken AS (
    UPDATE coa_requests c SET state = 'sending', takings = c.takings + 1, due_at = now() + %(lease)s * interval '1 s'
    FROM chosen WHERE c.id = chosen.id RETURNING c.*
)
SELECT t.id, t.takings, t.tenant_id, t.kind, t.attributes, t.session_id, coalesce(replace(t.mac::text, ':', ''), ''),
    t.identity, t.nas_port, coalesce(host(t.framed_ip), ''), t.nas_key, t.step,
    coalesce(host(n.address), host(t.nas_address), ''), coalesce(n.vendor, ''), coalesce(n.behind_nat, false),
    coalesce(n.signs_coa_answers, false), n.id, n.secret_sealed, s.id, s.secret_sealed,
    x.id, x.next_sealed,
    EXISTS (
        SELECT FROM sessions x WHERE x.id = t.session_row AND x.tenant_id = t.tenant_id AND x.stopped_at IS NULL
    ) AND NOT EXISTS (
        SELECT FROM coa_requests o WHERE o.tenant_id = t.tenant_id AND o.session_row = t.session_row
            AND o.state = 'acknowledged' AND o.answer_code = {disconnect_ack}
            AND o.ended_at > now() - interval '{just_ended}'
    )
FROM taken t JOIN slots s ON s.tenant_id = t.tenant_id
-- Find the NAS as the module does (radius.module.request): by its own identifier, then by its address, then by its
-- former registration. A NAS that was registered just now need not send a request first.
LEFT JOIN LATERAL (
    SELECT r.*, r.identifier = substring(t.nas_key FROM '^(.*)\|[^|]*$') AS is_named,
        r.address = t.nas_address AS is_there
    FROM nases r WHERE r.tenant_id = t.tenant_id AND (
        r.identifier = substring(t.nas_key FROM '^(.*)\|[^|]*$') OR r.address = t.nas_address OR r.id = t.nas_id
    )
    ORDER BY is_named DESC NULLS LAST, is_there DESC NULLS LAST LIMIT 1
) n ON true
-- During a secret rotation, use the next secret if this NAS used it last.
LEFT JOIN LATERAL (
    SELECT r.id, r.next_sealed FROM secret_rotations r JOIN secret_sightings h ON h.rotation_id = r.id
    WHERE r.tenant_id = t.tenant_id AND r.state = 'running'
        AND r.nas_id IS NOT DISTINCT FROM CASE WHEN n.secret_sealed IS NOT NULL THEN n.id END
        AND h.nas_key IN (n.id::text, t.nas_key, concat(split_part(t.nas_key, '|', 1), '|', host(t.nas_address)))
        AND h.new_at >= coalesce(h.old_at, h.new_at)
    LIMIT 1
) x ON true
ORDER BY t.id
""".replace("{disconnect_ack}", str(DISCONNECT_REQUEST + 1)).replace("{just_ended}", _JUST_ENDED)
_RECORD = """
UPDATE coa_requests c SET attempts = c.attempts + 1, step = s.step, sent_at = now(),
    due_at = now() + %(lease)s * interval '1 s'
FROM unnest(%(ids)s::bigint[], %(takings)s::int[], %(steps)s::int[]) AS s (id, takings, step)
WHERE c.id = s.id AND c.takings = s.takings AND c.state = 'sending'
RETURNING c.id
"""
_END = (
    """
UPDATE coa_requests SET
    state = %(state)s, ended_at = now(), answer_code = %(answer_code)s, error_cause = %(error_cause)s,
    detail = %(detail)s, step = %(step)s
WHERE id = %(id)s AND takings = %(takings)s
    -- Store a response even if the request was withdrawn after it was sent: the NAS has acted on it.
    AND (state = 'sending' OR (state = 'withdrawn' AND %(answer_code)s::int IS NOT NULL))
"""
    + _RETURN_ENDED
)
_POSTPONE = """
UPDATE coa_requests c SET state = 'queued', retries = c.retries + 1, step = 0, detail = %(detail)s,
    due_at = now() + least(%(longest)s, %(first)s * 2.0 ^ least(c.retries, 16)) * interval '1 s'
WHERE c.id = %(id)s AND c.takings = %(takings)s AND c.state = 'sending' AND c.expires_at > now()
    AND c.reason <> ALL (%(tried_once)s)
    AND NOT EXISTS (
        SELECT FROM coa_requests o WHERE o.tenant_id = c.tenant_id AND o.session_row = c.session_row
            AND o.kind = c.kind AND o.reason = c.reason AND o.state = 'queued'
    )
RETURNING c.id
"""
_COUNT_UNANSWERED = """
SELECT count(DISTINCT (c.tenant_id, c.nas_key)) FROM coa_requests c JOIN slots s ON s.tenant_id = c.tenant_id
WHERE s.cell_id = scope_cell_id() AND c.state IN ('queued', 'sending') AND c.retries > 0
"""
_RETRY_PARAMETERS = {
    "first": FIRST_RETRY_SECONDS,
    "longest": MAX_RETRY_SECONDS,
    # Reasons of requests that are not retried. The person who started a request sees its result. Each re-decision
    # creates new requests.
    "tried_once": [REQUESTED_REASON, REDECIDED_REASON],
}
EndedCallback = Callable[[Sequence[CoaRequest]], None]


class _RequestRow(NamedTuple):
    id: int
    takings: int
    tenant_id: UUID
    kind: str
    attributes: list[dict[str, Any]]
    session_id: str
    mac: str
    identity: str
    nas_port: str
    framed_ip: str
    nas_key: str
    step: int
    address: str
    vendor: str
    behind_nat: bool
    signs_answers: bool
    nas_id: UUID | None
    nas_secret: bytes | None
    slot_id: UUID
    slot_secret: bytes
    rotation_id: UUID | None
    next_secret: bytes | None
    is_live: bool


@dataclass(frozen=True, slots=True)
class ClaimedRequest:
    """A request that this agent may process until LEASE_SECONDS after its last write."""

    row: _RequestRow
    # Secret of the NAS, or of the tenant if the NAS has no secret of its own; b"" if it cannot be decrypted.
    secret: bytes

    @property
    def nas(self) -> str:
        return f"{self.row.tenant_id}{self.row.nas_key}"


class SendRecord(NamedTuple):
    id: int
    takings: int
    step: int


class CoaResult(NamedTuple):
    id: int
    takings: int
    step: int
    state: CoaState
    answer_code: int | None
    error_cause: int | None
    detail: str


class CoaQueue:
    """Transactions of the queue. Each method of the queue raises AdmitError if the database does not respond."""

    def __init__(
        self, engine: Engine, cell_id: CellId, sealer: Sealer, ended: EndedCallback = lambda requests: None
    ) -> None:
        """Create the queue.

        After the commit of a transaction that ends requests, the queue calls `ended` with these requests.
        """
        self._engine = engine
        self._cell_id = cell_id
        self._sealer = sealer
        self._ended = ended

    def take(self, *, room: int, each: int, busy: Collection[str], full: Collection[UUID]) -> list[ClaimedRequest]:
        """Claim up to `room` requests: at most `each` requests of one tenant, and at most one request of one NAS.

        Skips NASes in `busy` (keys as in `ClaimedRequest.nas`) and tenants in `full`.
        """
        parameters = {
            "cell": self._cell_id,
            "room": room,
            "each": each,
            "busy": list(busy),
            "full": list(full),
            "lease": LEASE_SECONDS,
            "takings": MAX_TAKINGS,
        }
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            cursor = driver_connection(session).cursor()
            over = [*_read_ended(cursor.execute(_EXPIRE)), *_read_ended(cursor.execute(_GIVE_UP, parameters))]
            rows = [_RequestRow(*row) for row in cursor.execute(_TAKE, parameters).fetchall()]
        self._ended(over)
        return [ClaimedRequest(row, self._secret(row)) for row in rows]

    def record(self, sendings: Sequence[SendRecord]) -> set[int]:
        """Record that a packet of each request is about to be sent.

        Returns the ids of the requests that are still assigned to this agent.
        """
        parameters = {
            "ids": [each.id for each in sendings],
            "takings": [each.takings for each in sendings],
            "steps": [each.step for each in sendings],
            "lease": LEASE_SECONDS,
        }
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            return {row[0] for row in driver_connection(session).execute(_RECORD, parameters)}

    def unanswered(self) -> int:
        """Number of NASes that did not respond to a request about a blocked device or a revoked certificate.

        Such a request waits for a retry.
        """
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            [(count,)] = driver_connection(session).execute(_COUNT_UNANSWERED).fetchall()
        return int(count)

    def end(self, endings: Sequence[CoaResult]) -> None:
        """Store the results of requests.

        If a NAS did not respond to a request about a blocked device or a revoked certificate, queues the request again.
        """
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            cursor = driver_connection(session).cursor()
            for each in endings:
                if each.state == "unanswered":
                    cursor.execute(_POSTPONE, each._asdict() | _RETRY_PARAMETERS)
            cursor.executemany(_END, [each._asdict() for each in endings], returning=True)
            over = _read_ended(cursor)
            while cursor.nextset():
                over += _read_ended(cursor)
        self._ended(over)

    def _secret(self, row: _RequestRow) -> bytes:
        sealed, context = row.slot_secret, f"slot:{row.slot_id}"
        if row.nas_secret is not None:
            sealed, context = row.nas_secret, f"nas:{row.nas_id}"
        if row.next_secret is not None:
            sealed, context = row.next_secret, rotation_context(row.rotation_id)
        try:
            return self._sealer.open(sealed, context)
        except SecretsError:
            return b""


def _read_ended(cursor: psycopg.Cursor) -> list[CoaRequest]:
    columns = [column.name for column in cursor.description or ()]
    return [CoaRequest(**dict(zip(columns, row, strict=True))) for row in cursor.fetchall()]
