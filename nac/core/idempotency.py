"""Idempotent changes: the transaction of a change also stores the response for repeated requests.

Follows draft-ietf-httpapi-idempotency-key-header. A caller must not use a key for two different requests. Different
callers can use equal keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, CursorResult, delete, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.kit.errors import Conflict, InvalidInput
from nac.kit.sealing import Seal, Unseal
from nac.models import IdempotencyKey

RETENTION = timedelta(days=1)
# Age of an unfinished change after which Admit assumes that its process failed. A change with an intermediate commit
# (nac.kit.db.commit_intent) usually takes some seconds.
ABANDONED_AFTER = timedelta(minutes=1)
MAX_KEY_LENGTH = 200
_RETRY_REMEDY = (
    "Try again in a second. If the process of the first request has died, a retry after a minute continues the request."
)


class StillUnderWay(Conflict):
    """The same request is still running."""

    retry_after_seconds = 1


class KeyReused(Conflict):
    """This Idempotency-Key was used with another request."""

    status = 422


@dataclass(frozen=True, slots=True)
class StoredResponse:
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class PendingChange:
    """Result of `begin_change` if no response is stored: make the change, and then call `finish_change`."""

    # Id of the object that an earlier attempt committed before its process failed; None if no object was committed.
    made_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A change that the caller requested with an Idempotency-Key."""

    owner: Owner
    asker: str
    key: str
    request_sha256: bytes

    @property
    def context(self) -> str:
        return f"idempotency:{self.owner.msp_id}:{self.owner.tenant_id}:{self.asker}:{self.key}"


def begin_change(session: Session, named: KeyedRequest, *, unseal: Unseal) -> StoredResponse | PendingChange:
    """Return the stored response, or PendingChange if the caller must make the change.

    Waits until the transaction of a concurrent request with this key ends. Raises StillUnderWay if that request made an
    intermediate commit and is not finished. Raises KeyReused if an earlier request with this key was different. Needs
    the database scope of the owner (tenant, MSP or platform).
    """
    if not 1 <= len(named.key) <= MAX_KEY_LENGTH or not named.key.isascii() or not named.key.isprintable():
        raise InvalidInput(
            "Invalid idempotency key.",
            place="Idempotency-Key",
            remedy=f"Use 1 to {MAX_KEY_LENGTH} printable characters, such as a UUID.",
        )
    new = {"asker": named.asker, "key": named.key, "request_sha256": named.request_sha256, **named.owner.columns()}
    made = session.scalar(insert(IdempotencyKey).values(new).on_conflict_do_nothing().returning(IdempotencyKey.id))
    if made is not None:
        return PendingChange()
    row = session.scalars(select(IdempotencyKey).where(*_key_clauses(named)).with_for_update()).one()
    now = utc_now()
    is_same = row.request_sha256 == named.request_sha256
    # The earlier process has failed. A different request can use the key if that process committed nothing.
    if row.status is None and row.created_at <= now - ABANDONED_AFTER and (is_same or row.made_id is None):
        row.created_at, row.request_sha256 = now, named.request_sha256
        session.flush()
        return PendingChange(row.made_id)
    if not is_same:
        raise KeyReused(place="Idempotency-Key", remedy="Use a new idempotency key for each request.")
    if row.status is None:
        raise StillUnderWay(place="Idempotency-Key", remedy=_RETRY_REMEDY)
    assert row.body_sealed is not None
    return StoredResponse(row.status, row.headers or {}, unseal(row.body_sealed, named.context))


def record_created_id(session: Session, named: KeyedRequest, made_id: UUID) -> None:
    """Store the id of the created object before an intermediate commit.

    If this process fails after the commit, a retry of the request gets this id (`PendingChange.made_id`).
    """
    session.execute(update(IdempotencyKey).where(*_key_clauses(named)).values(made_id=made_id))


def release_key(session: Session, named: KeyedRequest) -> None:
    """Release the key if the change fails after an intermediate commit. The caller can then retry immediately."""
    long_ago = utc_now() - ABANDONED_AFTER
    begun = update(IdempotencyKey).where(*_key_clauses(named), IdempotencyKey.status.is_(None))
    session.execute(begun.values(created_at=long_ago))


def finish_change(session: Session, named: KeyedRequest, answer: StoredResponse, *, seal: Seal) -> None:
    """Store the response in the transaction of the change.

    Raises StillUnderWay if a retry of the request has made the change meanwhile.
    """
    sealed = seal(answer.body, named.context)
    columns = {"status": answer.status, "headers": dict(answer.headers), "body_sealed": sealed}
    open_still = update(IdempotencyKey).where(*_key_clauses(named), IdempotencyKey.status.is_(None))
    if session.scalar(open_still.values(columns).returning(IdempotencyKey.id)) is None:
        raise StillUnderWay(place="Idempotency-Key", remedy=_RETRY_REMEDY)


def _key_clauses(named: KeyedRequest) -> tuple[ColumnElement[bool], ...]:
    row = IdempotencyKey
    return named.owner.owns(row), row.asker == named.asker, row.key == named.key


def prune(session: Session) -> int:
    """Delete responses older than RETENTION.

    Returns the number of deleted responses. Needs database role admit_worker and PlatformScope.
    """
    result = session.execute(delete(IdempotencyKey).where(IdempotencyKey.created_at < utc_now() - RETENTION))
    assert isinstance(result, CursorResult)
    return result.rowcount
