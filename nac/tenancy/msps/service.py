"""Managed service providers (MSPs).

Call these functions in PlatformScope, unless a function's docstring names another scope.
"""

from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.advice import Advice
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import AlreadyExists, Forbidden, InvalidInput, NotFound
from nac.kit.ids import MspId
from nac.kit.validation import require_name, require_slug
from nac.models import Msp
from nac.tenancy.msps import repository
from nac.tenancy.msps.repository import ORDERS as ORDERS

DELETION_DAYS = (1, 365)


class MspNotFound(NotFound):
    """The MSP does not exist."""


class MspSuspended(Forbidden):
    """The MSP is suspended."""


def create_msp(session: Session, *, actor: str, slug: str, name: str = "") -> Msp:
    require_slug(slug)
    if repository.get_by_slug(session, slug):
        raise AlreadyExists(f"MSP {slug!r} already exists.", place="slug")
    msp = Msp(slug=slug, name=require_name(name or slug))
    session.add(msp)
    session.flush()
    audit.append(session, actor=actor, action="msp.create", target=slug, msp_id=msp.id, after={"name": msp.name})
    return msp


def require_by_slug(session: Session, *, slug: str) -> Msp:
    msp = repository.get_by_slug(session, slug)
    if msp is None:
        raise MspNotFound(f"Unknown MSP {slug!r}.", place="msp", remedy=Advice("List MSPs", "listMsps"))
    return msp


def list_msps(
    session: Session, *, span: PageSpan | None = None, text: str = "", statuses: Collection[str] = ()
) -> Sequence[Msp]:
    """List MSPs. Without `span`, the list contains all MSPs. `text` is a part of the slug or name.

    `statuses` selects by status.
    """
    return repository.list_page(session, span=span or ORDERS.first(1_000_000), text=text, statuses=statuses)


def list_visible(
    session: Session,
    *,
    only: Collection[MspId] | None,
    span: PageSpan,
    text: str = "",
    statuses: Collection[str] = (),
    has_two_factors: bool,
) -> Sequence[Msp]:
    """List MSPs that the scope can read. `only` selects MSPs by id; None means all MSPs.

    Without `has_two_factors`, the list excludes MSPs that require two factors.
    """
    return repository.list_page(
        session, span=span, text=text, statuses=statuses, only=only, has_two_factors=has_two_factors
    )


def require_msp(session: Session, *, msp_id: MspId, lock: bool = False) -> Msp:
    """Return the MSP with this id. Call this function in a scope that can read the MSP. Raises MspNotFound."""
    msp = session.get(Msp, msp_id, with_for_update=lock, populate_existing=lock)
    if msp is None:
        raise MspNotFound
    return msp


def require_active(session: Session, *, msp_id: MspId) -> None:
    """Lock the active MSP, so that nobody can suspend or delete the MSP until the transaction ends.

    Raises MspNotFound and MspSuspended.
    """
    msp = session.get(Msp, msp_id, with_for_update={"read": True}, populate_existing=True)
    if msp is None:
        raise MspNotFound
    if msp.status != "active":
        raise MspSuspended(place="msp", remedy="Resume the MSP first.")


def update_msp(
    session: Session, *, actor: str, msp_id: MspId, name: str | None = None, deletion_days: int | None = None
) -> Msp:
    """Change an MSP. Tenants that are already being deleted keep their purge date."""
    msp = require_msp(session, msp_id=msp_id, lock=True)
    wanted: dict[str, object] = {} if name is None else {"name": require_name(name)}
    if deletion_days is not None:
        least, most = DELETION_DAYS
        if not least <= deletion_days <= most:
            remedy = f"Use {least} to {most} days."
            raise InvalidInput(f"Invalid number of days {deletion_days}.", place="deletion_days", remedy=remedy)
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
