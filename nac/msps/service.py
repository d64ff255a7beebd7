"""Managed service providers. In PlatformScope, but for what is said to be of any."""

from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.db.orders import Span
from nac.errors import AlreadyExists, Forbidden, InvalidInput, NotFound
from nac.ids import MspId
from nac.models import Msp
from nac.msps import repository
from nac.msps.repository import ORDERS as ORDERS
from nac.validation import require_name, require_slug

DELETION_DAYS = (1, 365)


class MspNotFound(NotFound):
    """There is no such MSP."""


class MspSuspended(Forbidden):
    """This MSP is suspended."""


def create_msp(session: Session, *, actor: str, slug: str, name: str = "") -> Msp:
    require_slug(slug)
    if repository.get_by_slug(session, slug):
        raise AlreadyExists(f"There is an MSP {slug!r} already.", place="slug")
    msp = Msp(slug=slug, name=require_name(name or slug))
    session.add(msp)
    session.flush()
    audit.append(session, actor=actor, action="msp.create", target=slug, msp_id=msp.id, after={"name": msp.name})
    return msp


def require_by_slug(session: Session, *, slug: str) -> Msp:
    msp = repository.get_by_slug(session, slug)
    if msp is None:
        raise MspNotFound(f"There is no MSP {slug!r}.", place="msp", remedy="They are listed by: ./admit msp list")
    return msp


def list_msps(
    session: Session, *, span: Span | None = None, text: str = "", statuses: Collection[str] = ()
) -> Sequence[Msp]:
    """All of them without `span`. `text` is a part of slug or name; `statuses` leaves out the others."""
    return repository.list_page(session, span=span or ORDERS.first(1_000_000), text=text, statuses=statuses)


def list_visible(
    session: Session,
    *,
    only: Collection[MspId] | None,
    span: Span,
    text: str = "",
    statuses: Collection[str] = (),
    has_two_factors: bool,
) -> Sequence[Msp]:
    """`only` these, None for all; for who has shown one factor but those that ask for no second. In any scope that
    sees them."""
    return repository.list_page(
        session, span=span, text=text, statuses=statuses, only=only, has_two_factors=has_two_factors
    )


def require_msp(session: Session, *, msp_id: MspId, lock: bool = False) -> Msp:
    """In any scope that sees it."""
    msp = session.get(Msp, msp_id, with_for_update=lock, populate_existing=lock)
    if msp is None:
        raise MspNotFound
    return msp


def require_active(session: Session, *, msp_id: MspId) -> None:
    """It is not suspended or deleted until the transaction ends. Raises MspSuspended."""
    msp = session.get(Msp, msp_id, with_for_update={"read": True}, populate_existing=True)
    if msp is None:
        raise MspNotFound
    if msp.status != "active":
        raise MspSuspended(place="msp", remedy="Resume it first.")


def update_msp(
    session: Session, *, actor: str, msp_id: MspId, name: str | None = None, deletion_days: int | None = None
) -> Msp:
    """Change what is given. Tenants that were deleted already keep their day."""
    msp = require_msp(session, msp_id=msp_id, lock=True)
    wanted: dict[str, object] = {} if name is None else {"name": require_name(name)}
    if deletion_days is not None:
        least, most = DELETION_DAYS
        if not least <= deletion_days <= most:
            remedy = f"Give {least} to {most}."
            raise InvalidInput(f"{deletion_days} days are not possible.", place="deletion_days", remedy=remedy)
        wanted["deletion_days"] = deletion_days
    before = {key: getattr(msp, key) for key in wanted}
    if before != wanted:
        for key, value in wanted.items():
            setattr(msp, key, value)
        session.flush()
        audit.append(
            session, actor=actor, action="msp.set", target=msp.slug, msp_id=msp.id, before=before, after=wanted
        )
    return msp
