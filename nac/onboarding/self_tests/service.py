"""Service for a tenant's self-tests. The worker runs the self-tests (`nac.onboarding.self_tests.runner`)."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import delete, func, select, text
from sqlalchemy.orm import Session

from nac.cellformat.self_test_ticket import NAS_IDENTIFIER, SELF_TEST_PROFILE
from nac.core.audit import service as audit
from nac.kit.db import lock_quota
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.errors import Conflict, NotFound
from nac.kit.ids import TenantId
from nac.models import AuthLog, Certificate, SelfTest
from nac.tenancy.tenants import service as tenants

ORDERS = SortOrders({"created_at": (SelfTest.created_at, SelfTest.id)}, default="-created_at")
_WAITING = text("SELECT tenant_id, id FROM waiting_self_tests(:most)")
_OPEN_STATES = ("queued", "running")


def list_waiting(session: Session, *, most: int) -> list[tuple[TenantId, UUID]]:
    """Return waiting self-tests of all tenants, oldest first. Requires the database role admit_worker."""
    return [(TenantId(row.tenant_id), row.id) for row in session.execute(_WAITING, {"most": most})]


def get(session: Session, tenant_id: TenantId, test_id: UUID, *, lock: bool = False) -> SelfTest | None:
    query = select(SelfTest).where(SelfTest.tenant_id == tenant_id, SelfTest.id == test_id)
    return session.scalar(query.with_for_update().execution_options(populate_existing=True) if lock else query)


def count_open(session: Session, tenant_id: TenantId) -> int:
    query = select(func.count()).select_from(SelfTest)
    return session.scalars(query.where(SelfTest.tenant_id == tenant_id, SelfTest.state.in_(_OPEN_STATES))).one()


def list_page(session: Session, tenant_id: TenantId, *, span: PageSpan) -> Sequence[SelfTest]:
    return session.scalars(span.of(select(SelfTest).where(SelfTest.tenant_id == tenant_id))).all()


def delete_older(session: Session, tenant_id: TenantId, *, newest: int) -> None:
    kept = (
        select(SelfTest.id)
        .where(SelfTest.tenant_id == tenant_id)
        .order_by(SelfTest.created_at.desc(), SelfTest.id.desc())
        .limit(newest)
    )
    session.execute(
        delete(SelfTest).where(
            SelfTest.tenant_id == tenant_id, SelfTest.state.not_in(_OPEN_STATES), SelfTest.id.not_in(kept)
        )
    )


def list_valid_certificates(session: Session, tenant_id: TenantId, names: Sequence[str]) -> Sequence[bytes]:
    """Return the serial numbers of valid self-test certificates with these common names."""
    query = select(Certificate.serial).where(
        Certificate.tenant_id == tenant_id,
        Certificate.profile == SELF_TEST_PROFILE,
        Certificate.status == "valid",
        Certificate.common_name.in_(names),
    )
    return session.scalars(query.order_by(Certificate.serial)).all()


def list_decisions(session: Session, tenant_id: TenantId, run: str, since: datetime) -> dict[str, AuthLog]:
    """Return the decisions that the cell logged during the run, by the id (mark) of the check."""
    rows = session.scalars(
        select(AuthLog).where(
            AuthLog.tenant_id == tenant_id,
            AuthLog.at >= since,
            AuthLog.nas_identifier == NAS_IDENTIFIER,
            AuthLog.nas_port.startswith(f"{run}-", autoescape=True),
        )
    )
    return {row.nas_port.partition(".")[0]: row for row in rows}


# Maximum number of a tenant's self-tests that wait or run.
MAX_OPEN = 2
# Maximum number of a tenant's stored self-tests. Admit deletes older self-tests.
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
    if count_open(session, tenant_id) >= MAX_OPEN:
        raise Conflict(
            "Too many self-tests of this tenant are in progress.",
            remedy="Wait until a self-test ends, usually a few seconds.",
        )
    delete_older(session, tenant_id, newest=MAX_STORED - 1)
    row = SelfTest(tenant_id=tenant_id, requested_by=actor)
    session.add(row)
    session.flush()
    session.refresh(row)
    audit.append(session, actor=actor, action="self-test.start", target=str(row.id), tenant_id=tenant_id)
    return row


def require_self_test(session: Session, *, tenant_id: TenantId, test_id: UUID) -> SelfTest:
    row = get(session, tenant_id, test_id)
    if row is None:
        raise SelfTestNotFound("The self-test does not exist.", place="self-test")
    return row


def list_self_tests(session: Session, *, tenant_id: TenantId, span: PageSpan | None = None) -> Sequence[SelfTest]:
    """List self-tests, newest first by default."""
    return list_page(session, tenant_id, span=span or ORDERS.first())
