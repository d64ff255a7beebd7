from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.db.orders import Orders, Span
from nac.db.texts import has_part
from nac.models import Msp

ORDERS = Orders({"slug": (Msp.slug,), "name": (Msp.name, Msp.id), "created_at": (Msp.created_at, Msp.id)})


def get_by_slug(session: Session, slug: str) -> Msp | None:
    return session.scalar(select(Msp).where(Msp.slug == slug))


def list_page(session: Session, *, span: Span, text: str) -> Sequence[Msp]:
    query = span.of(select(Msp))
    if text:
        query = query.where(has_part(text, Msp.slug, Msp.name))
    return session.scalars(query).all()
