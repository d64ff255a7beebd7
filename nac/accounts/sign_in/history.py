"""Sign-ins and failed attempts of a person, and the deletion of old sign-in data."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Engine,
    Integer,
    Select,
    Text,
    cast,
    literal,
    null,
    or_,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import INET
from sqlalchemy.orm import Session

from nac.accounts.sign_in import repository
from nac.accounts.sign_in.sign_ins import MAX_IDLE, SignedInPerson
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.models import PasswordLink, SignIn, SignInAttempt, SignInFailure, SpentChallenge

HistoryKey = tuple[datetime, str]
# Retention of sign-ins and failed attempts.
HISTORY_RETENTION = timedelta(days=90)
LINK_RETENTION = timedelta(days=30)
# Time after which an attempt no longer counts. Must equal the time in the SQL function begin_sign_in_attempt().
_ATTEMPT_WINDOW = timedelta(hours=1)
BATCH_ROWS = 1_000
_MAX_BATCHES = 200


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A sign-in, or all failed sign-ins of one hour that have the same reason and source address."""

    id: str
    at: datetime
    outcome: Literal["signed-in", "failed"]
    # Number of attempts from `since` to `at`.
    attempts: int
    since: datetime
    reason: str | None
    factors: list[str]
    from_address: str | None
    user_agent: str


def list_history(
    session: Session, *, signed_in: SignedInPerson, after: HistoryKey | None, limit: int, oldest_first: bool = False
) -> Sequence[HistoryEntry]:
    """List the person's own sign-ins and failed sign-ins. Needs PersonScope.

    If the person signed in by single sign-on, the list has only sign-ins by this provider, and no failed sign-ins.
    """
    mine = SignIn.person_id == signed_in.person_id
    begun = select(
        cast(SignIn.id, Text).label("id"),
        SignIn.created_at.label("at"),
        literal("signed-in").label("outcome"),
        literal(1, Integer).label("attempts"),
        SignIn.created_at.label("since"),
        cast(null(), Text).label("reason"),
        SignIn.factors,
        cast(SignIn.from_address, INET).label("from_address"),
        SignIn.user_agent,
    )
    if signed_in.via is not None:
        found = begun.where(mine, SignIn.sign_on_id == signed_in.via.sign_on_id).subquery()
    else:
        found = union_all(begun.where(mine), _select_failed(signed_in.person_id)).subquery()
    columns = (found.c.at, found.c.id)
    query = select(found).order_by(*(columns if oldest_first else (each.desc() for each in columns))).limit(limit)
    if after is not None:
        key, place = tuple_(*columns), tuple_(*after)
        query = query.where(key > place if oldest_first else key < place)
    rows = session.execute(query).mappings()
    return [HistoryEntry(**{**row, "from_address": _address_text(row["from_address"])}) for row in rows]


def prune(*, engine: Engine | None = None, batch: int = BATCH_ROWS) -> dict[str, int]:
    """Delete old rows in batches. Returns the number of deleted rows by table.

    One run deletes a limited number of rows. The next run deletes the remaining rows. Runs as database role
    admit_worker, in PlatformScope.
    """
    now = utc_now()
    over: dict[type, ColumnElement[bool]] = {
        # A sign-in without requests for MAX_IDLE has ended.
        SignIn: SignIn.last_seen_at < now - HISTORY_RETENTION - MAX_IDLE,
        SignInFailure: SignInFailure.last_at < now - HISTORY_RETENTION,
        PasswordLink: PasswordLink.expires_at < now - LINK_RETENTION,
        SignInAttempt: (SignInAttempt.last_at < now - _ATTEMPT_WINDOW)
        & or_(SignInAttempt.blocked_until.is_(None), SignInAttempt.blocked_until < now),
        SpentChallenge: SpentChallenge.expires_at < now - _ATTEMPT_WINDOW,
    }
    return {
        str(table.__tablename__): _prune_table(table, which, batch, engine)  # type: ignore[attr-defined]
        for table, which in over.items()
    }


def _select_failed(person_id: UUID) -> Select[str, datetime, str, int, datetime, str, Sequence[str], str, str]:
    row = SignInFailure
    return select(
        cast(row.id, Text),
        row.last_at,
        literal("failed"),
        row.count,
        row.first_at,
        row.reason,
        cast([], ARRAY(Text)),
        cast(row.address, INET),
        row.user_agent,
    ).where(row.subject_id == person_id)


def _address_text(address: object) -> str | None:
    return None if address is None else str(address)


def _prune_table(table: type, which: ColumnElement[bool], batch: int, engine: Engine | None) -> int:
    gone = 0
    for _ in range(_MAX_BATCHES):
        with session_scope(PlatformScope(), engine=engine) as session:
            found = repository.delete_batch(session, table, which, most=batch)
        gone += found
        if found < batch:
            break
    return gone
