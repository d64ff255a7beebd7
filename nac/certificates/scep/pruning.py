"""Deletion of old SCEP transactions."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import CursorResult, Engine, delete, func, select

from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.models import ScepTransaction, Tenant

# Devices retry for minutes and poll for days.
RETENTION = timedelta(days=30)


def prune_transactions(*, engine: Engine | None = None) -> int:
    """Delete transactions older than KEPT in all tenants; return the number. As admit_worker.

    Certificates stay. Uses one transaction per tenant; repeatable and safe to run concurrently.
    """
    with session_scope(PlatformScope(), engine=engine) as session:
        tenants: Sequence[TenantId] = session.scalars(select(Tenant.id)).all()
    deleted = 0
    for tenant_id in tenants:
        with session_scope(TenantScope(tenant_id), engine=engine) as session:
            old = delete(ScepTransaction).where(
                ScepTransaction.tenant_id == tenant_id, ScepTransaction.created_at < func.now() - RETENTION
            )
            result = session.execute(old, execution_options={"synchronize_session": False})
            assert isinstance(result, CursorResult)
            deleted += result.rowcount
    return deleted
