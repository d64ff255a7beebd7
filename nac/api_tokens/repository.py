from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import func, literal_column, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from nac.accounts.owners import Owner
from nac.models import ApiToken

# What is behind a token that somebody answers for; NULL of others.
_BEHIND = literal_column("CASE WHEN api_tokens.maker_id IS NOT NULL THEN memberships_behind(api_tokens) END", JSONB)


def get_by_public_id(session: Session, public_id: str) -> tuple[ApiToken, list[dict[str, Any]] | None] | None:
    """With the memberships that now give its maker something there, where somebody answers for it."""
    query = select(ApiToken, _BEHIND).where(ApiToken.public_id == public_id)
    row = session.execute(query.execution_options(populate_existing=True)).one_or_none()
    return None if row is None else (row[0], row[1])


def get(session: Session, owner: Owner, token_id: UUID, *, lock: bool = False) -> ApiToken | None:
    query = select(ApiToken).where(owner.owns(ApiToken), ApiToken.id == token_id)
    query = query.execution_options(populate_existing=True)
    return session.scalar(query.with_for_update() if lock else query)


def hold(session: Session, token_id: UUID) -> datetime | None:
    """Until when it is good; None where it was revoked. It stays so until the transaction ends. In any scope."""
    return session.scalar(select(func.hold_token(token_id)))


def revoke_children(session: Session, token_id: UUID, now: datetime) -> int:
    """In any scope."""
    number: int = session.scalars(select(func.revoke_tokens_of(token_id, now))).one()
    return number


def count_good(session: Session, owner: Owner, now: datetime) -> int:
    query = select(func.count()).select_from(ApiToken)
    query = query.where(owner.owns(ApiToken), ApiToken.revoked_at.is_(None), ApiToken.expires_at > now)
    return session.scalars(query).one()


def list_page(session: Session, owner: Owner, *, after_id: UUID | None, limit: int) -> Sequence[ApiToken]:
    query = select(ApiToken).where(owner.owns(ApiToken)).order_by(ApiToken.id).limit(limit)
    if after_id is not None:
        query = query.where(ApiToken.id > after_id)
    return session.scalars(query.execution_options(populate_existing=True)).all()
