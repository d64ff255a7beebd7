"""Ends secret rotations whose window is over. Runs in the worker."""

import logging

from sqlalchemy import Engine

from nac.kit.db import PlatformScope, session_scope
from nac.kit.errors import DatabaseUnavailable
from nac.kit.secrets import Sealer
from nac.tenancy.secret_rotations import repository, service

ACTOR = "system:secret-rotation"
_BATCH_SIZE = 100
_log = logging.getLogger(__name__)


def finish_expired(sealer: Sealer, *, engine: Engine | None = None) -> None:
    """Finish each rotation whose window is over, so that only the new secret works. Needs role admit_worker."""
    with session_scope(PlatformScope(), engine=engine) as session:
        over = repository.list_expired(session, most=_BATCH_SIZE)
    for tenant_id, rotation_id in over:
        try:
            with session_scope(PlatformScope(), engine=engine) as session:
                service.finish_expired_rotation(
                    session, actor=ACTOR, tenant_id=tenant_id, rotation_id=rotation_id, sealer=sealer
                )
        except DatabaseUnavailable:
            raise
        except Exception:  # house-rule: a fault of one tenant must not stop the others
            _log.exception("cannot finish the secret rotation of tenant %s", tenant_id)
