"""Service for a tenant's self-tests. The worker runs the self-tests (`nac.onboarding.self_tests.runner`)."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.db import lock_quota
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import Conflict, NotFound
from nac.kit.ids import TenantId
from nac.models import SelfTest
from nac.onboarding.self_tests import repository
from nac.onboarding.self_tests.repository import ORDERS as ORDERS
from nac.tenancy.tenants import service as tenants

# Maximum self-tests of a tenant that wait or run.
MAX_OPEN = 2
# Maximum stored self-tests of a tenant. Older self-tests are deleted.
MAX_STORED = 50


class SelfTestNotFound(NotFound):
    """The self-test does not exist."""


def start_self_test(session: Session, *, actor: str, tenant_id: TenantId) -> SelfTest:
    """Start a self-test. Raises Conflict if the tenant is not active, or if too many self-tests are in progress."""
    tenant = tenants.require_tenant(session, tenant_id=tenant_id)
    if tenant.status != "active":
        raise Conflict(
            f"Tenant {tenant.slug!r} is {tenant.status}: the tenant admits no devices.",
            remedy="Resume the tenant first.",
        )
    lock_quota(session, "self-tests", tenant_id)
    if repository.count_open(session, tenant_id) >= MAX_OPEN:
        raise Conflict(
            "Too many self-tests of this tenant are in progress.",
            remedy="Wait until a self-test ends, usually a few seconds.",
        )
    repository.delete_older(session, tenant_id, newest=MAX_STORED - 1)
    row = SelfTest(tenant_id=tenant_id, asked_by=actor)
    session.add(row)
    session.flush()
    session.refresh(row)
    audit.append(session, actor=actor, action="self-test.start", target=str(row.id), tenant_id=tenant_id)
    return row


def require_self_test(session: Session, *, tenant_id: TenantId, test_id: UUID) -> SelfTest:
    row = repository.get(session, tenant_id, test_id)
    if row is None:
        raise SelfTestNotFound("The self-test does not exist.", place="self-test")
    return row


def list_self_tests(session: Session, *, tenant_id: TenantId, span: PageSpan | None = None) -> Sequence[SelfTest]:
    """List self-tests, newest first by default."""
    return repository.list_page(session, tenant_id, span=span or ORDERS.first())
