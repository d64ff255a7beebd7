"""Certificates that end: successors in time, and warnings."""

import logging
from collections.abc import Callable, Iterator
from functools import cache

from celery import shared_task

from nac.certificates import expiry, renewal, rollover
from nac.certificates.signing import Signing
from nac.clock import utc_now
from nac.db import PlatformScope, TenantScope, session_scope
from nac.errors import AdmitError, DatabaseUnavailable
from nac.ids import TenantId
from nac.settings import load_settings
from nac.tenants import service as tenants

_log = logging.getLogger(__name__)
_ACTOR = "system:worker"
_WHEN_AWAY = {
    "autoretry_for": (DatabaseUnavailable,),
    "retry_backoff": True,
    "retry_backoff_max": 600,
    "max_retries": 5,
}


@shared_task(
    name="certificates.renew",
    autoretry_for=(DatabaseUnavailable,),
    retry_backoff=True,
    retry_backoff_max=600,
    max_retries=5,
)
def renew() -> None:
    """Issuing authorities and server certificates that end soon get successors."""
    _for_each_tenant(_renew, "its certificates cannot be renewed")


@shared_task(
    name="certificates.warn",
    autoretry_for=(DatabaseUnavailable,),
    retry_backoff=True,
    retry_backoff_max=600,
    max_retries=5,
)
def warn() -> None:
    """Tell of what ends soon."""
    _for_each_tenant(_warn, "its certificates cannot be looked through")


def _renew(tenant_id: TenantId) -> None:
    # The authority first: a server certificate ends with it at the latest.
    try:
        _roll_over(tenant_id)
    except DatabaseUnavailable:
        raise
    except AdmitError as exc:
        # The root's key may be offline; the server's certificate needs it not.
        _log.warning("the issuing authority of tenant %s ends soon and needs a person: %s", tenant_id, exc)
    with session_scope(TenantScope(tenant_id)) as session:
        plan = renewal.plan_renewal(session, tenant_id=tenant_id, now=utc_now())
    if plan is not None:
        with session_scope(TenantScope(tenant_id)) as session:
            renewal.carry_out(session, plan, actor=_ACTOR, signing=_signing(), now=utc_now())


def _roll_over(tenant_id: TenantId) -> None:
    with session_scope(TenantScope(tenant_id)) as session:
        if not rollover.is_due(session, tenant_id=tenant_id, now=utc_now()):
            return
        plan = rollover.plan_rollover(session, tenant_id=tenant_id, signing=_signing())
    with session_scope(TenantScope(tenant_id)) as session:
        rollover.carry_out(session, plan, actor=_ACTOR, signing=_signing(), now=utc_now())


def _warn(tenant_id: TenantId) -> None:
    with session_scope(TenantScope(tenant_id)) as session:
        expiry.warn(session, actor=_ACTOR, tenant_id=tenant_id, now=utc_now())


def _for_each_tenant(work: Callable[[TenantId], None], complaint: str) -> None:
    for tenant_id in _tenants():
        try:
            work(tenant_id)
        except DatabaseUnavailable:
            raise
        except Exception:  # house-rule: whatever is wrong with one tenant's rows, the others' are looked at
            _log.exception("tenant %s: %s", tenant_id, complaint)


def _tenants() -> Iterator[TenantId]:
    after = ""
    while True:
        with session_scope(PlatformScope()) as session:
            page = tenants.list_tenants(session, after_slug=after)
        for tenant in page:
            if tenant.status != "deleting":
                yield TenantId(tenant.id)
        if not page:
            return
        after = page[-1].slug


@cache
def _signing() -> Signing:
    """Read when it is needed: a worker that has nothing to sign needs no key."""
    return Signing.from_settings(load_settings())
