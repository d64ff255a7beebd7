"""Certificates: successors and warnings for those that end, and what authorities publish of their status."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from celery import shared_task

from nac.certificates import expiry, intents, publication, rollover, server_renewal
from nac.certificates.authorities import finish_tenant_authorities
from nac.certificates.signing import SigningContext
from nac.clock import utc_now
from nac.db import PlatformScope, TenantScope, session_scope
from nac.errors import AdmitError, DatabaseUnavailable, Unavailable
from nac.ids import TenantId
from nac.models import Tenant
from nac.settings import load_settings
from worker.turns import all_tenants

_log = logging.getLogger(__name__)
_ACTOR = "system:worker"
# What is left to be published then is gone on with at the next turn, so that no job holds a worker for long.
_SECONDS = 60


@shared_task(
    name="certificates.renew", autoretry_for=(Unavailable,), retry_backoff=True, retry_backoff_max=600, max_retries=5
)
def renew() -> None:
    """Issuing authorities and server certificates that end soon get successors."""
    _for_each_tenant(_renew, "its certificates cannot be renewed")


@shared_task(
    name="certificates.warn", autoretry_for=(Unavailable,), retry_backoff=True, retry_backoff_max=600, max_retries=5
)
def warn() -> None:
    """Tell of what ends soon."""
    _for_each_tenant(_warn, "its certificates cannot be looked through")


def _renew(tenant_id: TenantId) -> None:
    with session_scope(TenantScope(tenant_id)) as session:
        made = finish_tenant_authorities(session, actor=_ACTOR, tenant_id=tenant_id, signing=_signing(), now=utc_now())
    if made is not None:
        _log.warning("tenant %s had no authorities: whoever made it did not come to them", tenant_id)
    # The authority first: a server certificate ends with it at the latest.
    try:
        _roll_over(tenant_id)
    except DatabaseUnavailable:
        raise
    except AdmitError as exc:
        # The root's key may be offline; the server's certificate needs it not.
        _log.warning("the issuing authority of tenant %s ends soon and needs a person: %s", tenant_id, exc)
    with session_scope(TenantScope(tenant_id)) as session:
        plan = server_renewal.plan_renewal(
            session, actor=_ACTOR, tenant_id=tenant_id, signing=_signing(), now=utc_now()
        )
    if plan is not None:
        with session_scope(TenantScope(tenant_id)) as session:
            server_renewal.execute_renewal(session, plan, actor=_ACTOR, signing=_signing(), now=utc_now())


def _roll_over(tenant_id: TenantId) -> None:
    with session_scope(TenantScope(tenant_id)) as session:
        if not rollover.is_rollover_due(session, tenant_id=tenant_id, now=utc_now()):
            return
        plan = rollover.plan_rollover(session, tenant_id=tenant_id, signing=_signing())
    with session_scope(TenantScope(tenant_id)) as session:
        rollover.execute_rollover(session, plan, actor=_ACTOR, signing=_signing(), now=utc_now())


def _warn(tenant_id: TenantId) -> None:
    with session_scope(TenantScope(tenant_id)) as session:
        slug = session.get_one(Tenant, tenant_id).slug
        notices = expiry.record_warnings(session, actor=_ACTOR, tenant_id=tenant_id, now=utc_now())
    for (kind, days), count in Counter((notice.subject.kind, notice.days) for notice in notices).items():
        _log.warning(
            "tenant %s: %d of kind %s end within %d days: ./admit cert expiring -t %s --kind %s --days %d",
            *(slug, count, kind, days, slug, kind, days),
        )


def _settle(tenant_id: TenantId) -> None:
    with session_scope(TenantScope(tenant_id)) as session:
        done = intents.abandon_stale_intents(session, actor=_ACTOR, tenant_id=tenant_id, now=utc_now())
    _log.warning(
        "tenant %s: %d certificates and %d authorities were to be signed and were not finished",
        tenant_id,
        done.certificates,
        done.authorities,
    )
    # What is missing for that is made now, and not within the hour.
    _renew(tenant_id)


def _for_each_tenant(work: Callable[[TenantId], None], complaint: str, which: Iterable[TenantId] | None = None) -> None:
    """For all of them where it is not said which."""
    for tenant_id in _tenants() if which is None else which:
        try:
            work(tenant_id)
        except DatabaseUnavailable:
            raise
        except Exception:  # house-rule: whatever is wrong with one tenant's rows, the others' are looked at
            _log.exception("tenant %s: %s", tenant_id, complaint)


def _tenants() -> Iterator[TenantId]:
    return (TenantId(tenant.id) for tenant in all_tenants() if tenant.status != "deleting")


@shared_task(name="certificates.settle", ignore_result=True)
def settle() -> None:
    """Give up what was to be signed and was not finished; each of it is in the audit log."""
    with session_scope(PlatformScope()) as session:
        waiting = intents.list_tenants_with_stale_intents(session)
    _for_each_tenant(_settle, "what it did not finish to sign cannot be given up", waiting)


@shared_task(name="certificates.publish", ignore_result=True)
def publish() -> None:
    """Lists of the revoked and signers of OCSP answers, for every authority for which one is due."""
    deadline = time.monotonic() + _SECONDS
    with session_scope(PlatformScope()) as session:
        waiting = publication.list_due(session, now=utc_now())
    if not waiting:
        return
    signing = _signing()
    for work in waiting:
        if time.monotonic() > deadline:
            return
        _publish(work, signing)


def _publish(work: publication.DuePublication, signing: SigningContext) -> None:
    tenant_id, authority_id = TenantId(work.tenant_id), work.authority_id
    try:
        with session_scope(TenantScope(tenant_id)) as session:
            publication.publish_status(
                session, actor=_ACTOR, tenant_id=tenant_id, authority_id=authority_id, signing=signing, now=utc_now()
            )
    except DatabaseUnavailable:
        raise
    except Exception:  # house-rule: whatever is wrong with one authority, the others publish
        _log.exception("authority %s of tenant %s cannot publish", authority_id, tenant_id)
        with session_scope(TenantScope(tenant_id)) as session:
            publication.postpone_publication(session, tenant_id=tenant_id, authority_id=authority_id, now=utc_now())


def _signing() -> SigningContext:
    """Read when it is needed: a worker that has nothing to sign needs no key."""
    return SigningContext.from_settings(load_settings())
