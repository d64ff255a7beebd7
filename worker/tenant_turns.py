"""Two loops over tenants for jobs.

One visits each tenant once. The other does a piece of work for each tenant in turn.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from sqlalchemy.orm import Session

from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import Conflict, Unavailable
from nac.kit.ids import TenantId
from nac.models import Tenant
from nac.tenancy.tenants import service

_log = logging.getLogger(__name__)


def iterate_tenants() -> Iterator[Tenant]:
    """All tenants in the order of slugs. A separate transaction reads each page."""
    return chain.from_iterable(service.ORDERS.pages(_read_page))


def _read_page(span: PageSpan) -> Sequence[Tenant]:
    with session_scope(PlatformScope()) as session:
        return service.list_tenants(session, span=span)


def run_in_turns(
    waiting: Sequence[TenantId], piece: Callable[[Session, TenantId], bool], *, until: float, complaint: str
) -> None:
    """Call `piece` for each tenant in turn, until no call reports more work or until `until` (monotonic clock).

    Because of the turns, a large tenant does not delay other tenants. Logs `complaint` if a call fails.
    """
    while waiting and time.monotonic() < until:
        waiting = [tenant_id for tenant_id in waiting if _run_piece(tenant_id, piece, complaint)]


def _run_piece(tenant_id: TenantId, piece: Callable[[Session, TenantId], bool], complaint: str) -> bool:
    try:
        with session_scope(TenantScope(tenant_id)) as session:
            return piece(session, tenant_id)
    except Conflict:
        # Another transaction changed the same rows. The next run, a second later, retries.
        return False
    except Unavailable:
        raise
    except Exception:  # house-rule: a failure of one tenant does not stop the others
        _log.exception("tenant %s: %s", tenant_id, complaint)
        return False
