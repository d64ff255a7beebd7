"""The tenants of a job: all of them, or those that have something to be done, a piece of each in turn."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from sqlalchemy.orm import Session

from nac.db import PlatformScope, TenantScope, session_scope
from nac.db.sort_orders import PageSpan
from nac.errors import Conflict, Unavailable
from nac.ids import TenantId
from nac.models import Tenant
from nac.tenants import service

_log = logging.getLogger(__name__)


def all_tenants() -> Iterator[Tenant]:
    """By slug; each page is read in a transaction of its own."""
    return chain.from_iterable(service.ORDERS.pages(_page))


def _page(span: PageSpan) -> Sequence[Tenant]:
    with session_scope(PlatformScope()) as session:
        return service.list_tenants(session, span=span)


def take_turns(
    waiting: Sequence[TenantId], piece: Callable[[Session, TenantId], bool], *, until: float, complaint: str
) -> None:
    """A piece of each, again and again while `piece` says that there is more, until `until` (monotonic clock): a large
    tenant does not hold up the others. `complaint` goes into the log where one tenant's rows are at fault."""
    while waiting and time.monotonic() < until:
        waiting = [tenant_id for tenant_id in waiting if _piece(tenant_id, piece, complaint)]


def _piece(tenant_id: TenantId, piece: Callable[[Session, TenantId], bool], complaint: str) -> bool:
    try:
        with session_scope(TenantScope(tenant_id)) as session:
            return piece(session, tenant_id)
    except Conflict:
        # Somebody changed the same rows; it is all still to be done, a second later.
        return False
    except Unavailable:
        raise
    except Exception:  # house-rule: whatever is wrong with one tenant's rows, the others' are looked at
        _log.exception("tenant %s: %s", tenant_id, complaint)
        return False
