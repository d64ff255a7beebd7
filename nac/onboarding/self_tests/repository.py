from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import delete, func, select, text
from sqlalchemy.orm import Session

from nac.cellformat.self_test_ticket import NAS_IDENTIFIER, SELF_TEST_PROFILE
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import TenantId
from nac.models import AuthLog, Certificate, SelfTest

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
