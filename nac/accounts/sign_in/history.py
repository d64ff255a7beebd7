"""A person's own sign-ins and failed attempts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from sqlalchemy import ARRAY, Integer, Select, Text, cast, literal, null, select, tuple_, union_all
from sqlalchemy.dialects.postgresql import INET
from sqlalchemy.orm import Session

from nac.accounts.sign_in.sign_ins import SignedInPerson
from nac.models import SignIn, SignInFailure

HistoryKey = tuple[datetime, str]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A sign-in, or the failures in one hour with the same reason and source."""

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
    """List own sign-ins and failures. After single sign-on, only those by that provider. Use in PersonScope."""
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
