"""What authorities publish."""

import logging
import time

from celery import shared_task

from nac.certificates import publication
from nac.certificates.signing import Signing
from nac.clock import utc_now
from nac.db import PlatformScope, TenantScope, session_scope
from nac.errors import DatabaseUnavailable
from nac.ids import TenantId
from nac.settings import load_settings

_log = logging.getLogger(__name__)

# What is left then is gone on with at the next turn, so that no job holds a worker for long.
_SECONDS = 60
_ACTOR = "worker"


@shared_task(name="certificates.publish", ignore_result=True)
def publish() -> None:
    """Lists of the revoked and signers of OCSP answers, for every authority for which one is due."""
    deadline = time.monotonic() + _SECONDS
    with session_scope(PlatformScope()) as session:
        waiting = publication.due(session, now=utc_now())
    if not waiting:
        return
    signing = Signing.from_settings(load_settings(required=("REDIS_URL",)))
    for work in waiting:
        if time.monotonic() > deadline:
            return
        _publish_one(work, signing)


def _publish_one(work: publication.Due, signing: Signing) -> None:
    tenant_id, authority_id = TenantId(work.tenant_id), work.authority_id
    try:
        with session_scope(TenantScope(tenant_id)) as session:
            publication.publish(
                session, actor=_ACTOR, tenant_id=tenant_id, authority_id=authority_id, signing=signing, now=utc_now()
            )
    except DatabaseUnavailable:
        raise
    except Exception:  # house-rule: whatever is wrong with one authority, the others publish
        _log.exception("authority %s of tenant %s cannot publish", authority_id, tenant_id)
        with session_scope(TenantScope(tenant_id)) as session:
            publication.postpone(session, tenant_id=tenant_id, authority_id=authority_id, now=utc_now())
