from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Uuid, cast, func, null, select, update
from sqlalchemy.orm import Session

from nac.kit.db.queries import contains_text, in_array
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import PermissionLevel
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
    """List MSPs. With `only`, list only the active MSPs with these ids."""
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
    """Suspend the active tenants of the MSP at platform level."""
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
