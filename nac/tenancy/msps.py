"""Managed service providers (MSPs).

Call these functions in PlatformScope, unless a function's docstring names another scope.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Uuid, cast, func, null, select, update
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.advice import Advice
from nac.kit.db.queries import contains_text, in_array
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.errors import AlreadyExists, Forbidden, InvalidInput, NotFound
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import PermissionLevel
from nac.kit.validation import require_name, require_slug
from nac.models import Msp, Tenant


class TenantRow(NamedTuple):
    id: TenantId
    slug: str


ORDERS = SortOrders({"slug": (Msp.slug,), "name": (Msp.name, Msp.id), "created_at": (Msp.created_at, Msp.id)})


def get_by_slug(session: Session, slug: str) -> Msp | None:
    return session.scalar(select(Msp).where(Msp.slug == slug))


def list_page(
    session: Session,
    *,
    span: PageSpan,
    text: str,
    statuses: Collection[str],
    only: Collection[MspId] | None = None,
    has_two_factors: bool = True,
) -> Sequence[Msp]:
    """List MSPs. `only` selects the active MSPs with these ids; None selects all MSPs."""
    query = span.of(select(Msp))
    if only is not None:
        query = query.where(in_array(Msp.id, only), Msp.status == "active")
    if not has_two_factors:
        query = query.where(~func.wants_two_factors(Msp.id, cast(null(), Uuid)))
    if text:
        query = query.where(contains_text(text, Msp.slug, Msp.name))
    if statuses:
        query = query.where(Msp.status.in_(statuses))
    return session.scalars(query).all()


def count_tenants(session: Session, msp_id: MspId) -> tuple[int, int]:
    """Return two counts: all tenants of the MSP, and the tenants of the MSP that are being deleted."""
    leaving = func.count().filter(Tenant.status == "deleting")
    row = session.execute(select(func.count(), leaving).select_from(Tenant).where(Tenant.msp_id == msp_id)).one()
    return row[0], row[1]


def suspend_tenants(session: Session, msp_id: MspId) -> Sequence[TenantRow]:
    """Suspend the active tenants of the MSP. Only the platform can then resume these tenants."""
    values = {"status": "suspended", "suspended_with_msp": True, "suspension_level": PermissionLevel.PLATFORM}
    return _update_tenants(session, msp_id, Tenant.status == "active", **values)


def resume_tenants(session: Session, msp_id: MspId) -> Sequence[TenantRow]:
    """Resume the tenants that Admit suspended together with the MSP."""
    values = {"status": "active", "suspended_with_msp": False, "suspension_level": None}
    return _update_tenants(session, msp_id, Tenant.suspended_with_msp.is_(True), **values)


def _update_tenants(
    session: Session, msp_id: MspId, which: ColumnElement[bool], **values: object
) -> Sequence[TenantRow]:
    query = select(Tenant.id, Tenant.slug).where(Tenant.msp_id == msp_id, which)
    # Lock tenants in the order of their ids, to avoid deadlocks.
    rows = [TenantRow(*row) for row in session.execute(query.order_by(Tenant.id).with_for_update())]
    changed = update(Tenant).where(in_array(Tenant.id, [row.id for row in rows])).values(**values)
    session.execute(changed, execution_options={"synchronize_session": False})
    return rows


DELETION_DAYS = (1, 365)


class MspNotFound(NotFound):
    """The MSP does not exist."""


class MspSuspended(Forbidden):
    """The MSP is suspended."""


def create_msp(session: Session, *, actor: str, slug: str, name: str = "") -> Msp:
    require_slug(slug)
    if get_by_slug(session, slug):
        raise AlreadyExists(f"MSP {slug!r} already exists.", place="slug")
    msp = Msp(slug=slug, name=require_name(name or slug))
    session.add(msp)
    session.flush()
    audit.append(session, actor=actor, action="msp.create", target=slug, msp_id=msp.id, after={"name": msp.name})
    return msp


def require_by_slug(session: Session, *, slug: str) -> Msp:
    msp = get_by_slug(session, slug)
    if msp is None:
        raise MspNotFound(f"Unknown MSP {slug!r}.", place="msp", remedy=Advice("List MSPs", "listMsps"))
    return msp


def list_msps(
    session: Session, *, span: PageSpan | None = None, text: str = "", statuses: Collection[str] = ()
) -> Sequence[Msp]:
    """List MSPs. Without `span`, the list contains all MSPs. `text` is a part of the slug or name."""
    return list_page(session, span=span or ORDERS.first(1_000_000), text=text, statuses=statuses)


def list_visible(
    session: Session,
    *,
    only: Collection[MspId] | None,
    span: PageSpan,
    text: str = "",
    statuses: Collection[str] = (),
    has_two_factors: bool,
) -> Sequence[Msp]:
    """List MSPs that the scope can read. `only` selects the active MSPs with these ids; None selects all MSPs.

    If `has_two_factors` is false, the list excludes MSPs that require two factors.
    """
    return list_page(session, span=span, text=text, statuses=statuses, only=only, has_two_factors=has_two_factors)


def require_msp(session: Session, *, msp_id: MspId, lock: bool = False) -> Msp:
    """Return the MSP with this id. Call this function in a scope that can read the MSP. Raises MspNotFound."""
    msp = session.get(Msp, msp_id, with_for_update=lock, populate_existing=lock)
    if msp is None:
        raise MspNotFound
    return msp


def require_active(session: Session, *, msp_id: MspId) -> None:
    """Check that the MSP is active. Until the transaction ends, nobody can suspend or delete the MSP.

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
