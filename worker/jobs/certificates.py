"""Renews certificates, warns before certificates expire, and publishes the status of certificates."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from celery import shared_task

from nac.certificates import expiry, intents, publication, rollover, server_renewal
from nac.certificates.authorities import finish_tenant_authorities
from nac.certificates.signing import SigningContext
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.errors import AdmitError, DatabaseUnavailable
from nac.kit.ids import TenantId
from nac.kit.settings import load_settings
from nac.models import Tenant
from worker.task_classes import UpkeepTask
from worker.tenant_turns import iterate_tenants

_log = logging.getLogger(__name__)
_ACTOR = "system:worker"
# Time limit of a run, so that no job occupies a worker process for long. The next run continues.
_TIME_BUDGET_SECONDS = 60


@shared_task(name="certificates.renew", base=UpkeepTask)
def renew() -> None:
    """Renew issuing authorities and server certificates that expire soon."""
    _for_each_tenant(_renew, "cannot renew its certificates")


@shared_task(name="certificates.warn", base=UpkeepTask)
def warn() -> None:
    _for_each_tenant(_warn, "cannot check its certificates")


def _renew(tenant_id: TenantId) -> None:
    with session_scope(TenantScope(tenant_id)) as session:
        made = finish_tenant_authorities(session, actor=_ACTOR, tenant_id=tenant_id, signing=_signing(), now=utc_now())
    if made is not None:
        _log.warning("tenant %s had no authorities: its creation was interrupted", tenant_id)
    # Renew the authority first, because a server certificate never outlives its authority.
    try:
        _roll_over(tenant_id)
    except DatabaseUnavailable:
        raise
    except AdmitError as exc:
        # The root's key may be offline. The server certificate does not need it.
        _log.warning("the issuing authority of tenant %s expires soon and needs a person: %s", tenant_id, exc)
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
            "tenant %s: %d of kind %s expire within %d days: listExpiringCertificates",
            *(slug, count, kind, days),
        )


def _settle(tenant_id: TenantId) -> None:
    with session_scope(TenantScope(tenant_id)) as session:
        done = intents.abandon_stale_intents(session, actor=_ACTOR, tenant_id=tenant_id, now=utc_now())
    _log.warning(
        "tenant %s: signing of %d certificates and %d authorities was interrupted; they are abandoned",
        tenant_id,
        done.certificates,
        done.authorities,
    )
    # Create missing authorities and certificates now instead of in the hourly run.
    _renew(tenant_id)


def _for_each_tenant(work: Callable[[TenantId], None], complaint: str, which: Iterable[TenantId] | None = None) -> None:
    """Call `work` for each tenant in `which`, by default for all tenants. Logs `complaint` if a call fails."""
    for tenant_id in _list_tenants() if which is None else which:
        try:
            work(tenant_id)
        except DatabaseUnavailable:
            raise
        except Exception:  # house-rule: a failure of one tenant does not stop the others
            _log.exception("tenant %s: %s", tenant_id, complaint)


def _list_tenants() -> Iterator[TenantId]:
    return (TenantId(tenant.id) for tenant in iterate_tenants() if tenant.status != "deleting")


@shared_task(name="certificates.settle")
def settle() -> None:
    """Abandon certificates and authorities whose signing was interrupted, and add entries to the audit log."""
    with session_scope(PlatformScope()) as session:
        waiting = intents.list_tenants_with_stale_intents(session)
    _for_each_tenant(_settle, "cannot abandon its interrupted signings", waiting)


@shared_task(name="certificates.publish")
def publish() -> None:
    """Publish the revocation lists and OCSP signers that are due, for all authorities."""
    deadline = time.monotonic() + _TIME_BUDGET_SECONDS
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
    except Exception:  # house-rule: a failure of one authority does not stop the others
        _log.exception("authority %s of tenant %s cannot publish", authority_id, tenant_id)
        with session_scope(TenantScope(tenant_id)) as session:
            publication.postpone_publication(session, tenant_id=tenant_id, authority_id=authority_id, now=utc_now())


def _signing() -> SigningContext:
    """Load the signing keys on demand, because a worker with nothing to sign needs no keys."""
    return SigningContext.from_settings(load_settings())
