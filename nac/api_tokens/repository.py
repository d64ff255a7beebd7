from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.accounts.owners import Owner
from nac.models import ApiToken


def get_by_public_id(session: Session, public_id: str) -> ApiToken | None:
    query = select(ApiToken).where(ApiToken.public_id == public_id)
    return session.scalar(query.execution_options(populate_existing=True))


def get(session: Session, owner: Owner, token_id: UUID) -> ApiToken | None:
    query = select(ApiToken).where(owner.owns(ApiToken), ApiToken.id == token_id)
    return session.scalar(query.execution_options(populate_existing=True))


def count_good(session: Session, owner: Owner, now: datetime) -> int:
    query = select(func.count()).select_from(ApiToken)
    query = query.where(owner.owns(ApiToken), ApiToken.revoked_at.is_(None), ApiToken.expires_at > now)
    return session.scalars(query).one()


def list_page(session: Session, owner: Owner, *, after_id: UUID | None, limit: int) -> Sequence[ApiToken]:
    query = select(ApiToken).where(owner.owns(ApiToken)).order_by(ApiToken.id).limit(limit)
    if after_id is not None:
        query = query.where(ApiToken.id > after_id)
    return session.scalars(query.execution_options(populate_existing=True)).all()
