from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, any_, cast, func, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from nac.kit.db.queries import BoundedPage, search_bounded
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import TenantId
from nac.models import CoaRequest
from nac.sessions import repository as sessions

ORDERS = SortOrders({"id": (CoaRequest.id,)}, default="-id")
# An index on these columns finds few rows, but not in the order of the page.
_SELECTIVE_COLUMNS = {"session_row", "redecision_id"}


def search_requests(
    session: Session,
    tenant_id: TenantId,
    *,
    states: Sequence[str],
    equal: Mapping[str, Any],
    user: str,
    nas_said: str,
    span: PageSpan,
    in_full: bool = False,
) -> BoundedPage[CoaRequest]:
    """Search requests. `equal` has the required value of each column in the filter.

    `nas_said` is the identifier that an unregistered NAS sends.
    """

    def told_apart(each: Any) -> list[ColumnElement[bool]]:  # noqa: ANN401 -- requests, or an alias of them
        conditions = [getattr(each, name) == value for name, value in equal.items() if name != "nas_id"]
        if states:
            conditions.append(each.state.in_(states))
        if user:
            conditions.append(func.lower(each.identity) == user.lower())
        if nas_said:
            conditions.append(sessions.nas_self_name(each.nas_key) == nas_said)
        return conditions

    whose = [CoaRequest.tenant_id == tenant_id]
    if "nas_id" in equal:
        whose.append(CoaRequest.nas_id == equal["nas_id"])
    if equal.keys() & _SELECTIVE_COLUMNS:
        query = select(CoaRequest).where(*whose, *told_apart(CoaRequest))
        return BoundedPage(session.scalars(span.of(query)).all(), None)
    return search_bounded(session, CoaRequest, whose, told_apart, span, in_full=in_full)


def list_by_ids(session: Session, tenant_id: TenantId, ids: Sequence[int]) -> Sequence[CoaRequest]:
    listed = CoaRequest.id == any_(cast(list(ids), ARRAY(BigInteger)))
    query = select(CoaRequest).where(CoaRequest.tenant_id == tenant_id, listed).order_by(CoaRequest.id)
    return session.scalars(query.execution_options(populate_existing=True)).all()


def lock_request(session: Session, tenant_id: TenantId, request_id: int) -> CoaRequest | None:
    return session.scalar(
        select(CoaRequest).where(CoaRequest.tenant_id == tenant_id, CoaRequest.id == request_id).with_for_update()
    )
