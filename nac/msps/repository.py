from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.models import Msp


def get_by_slug(session: Session, slug: str) -> Msp | None:
    return session.scalar(select(Msp).where(Msp.slug == slug))


def list_page(session: Session, *, after_slug: str, limit: int) -> Sequence[Msp]:
    return session.scalars(select(Msp).where(Msp.slug > after_slug).order_by(Msp.slug).limit(limit)).all()
