"""A turn of the worker: windows that are over."""

import logging

from sqlalchemy import Engine

from nac.db import PlatformScope, session_scope
from nac.errors import DatabaseUnavailable
from nac.secret_rotations import repository, service
from nac.secrets import Sealer

ACTOR = "system:secret-rotation"
_BATCH_SIZE = 100
_log = logging.getLogger(__name__)


def finish_expired(sealer: Sealer, *, engine: Engine | None = None) -> None:
    """Of each rotation whose window is over the new secret alone is left. As admit_worker."""
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
        except Exception:  # house-rule: whatever is wrong with one tenant, the others are looked at
            _log.exception("the secret of tenant %s cannot be changed over", tenant_id)
