from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, CursorResult, delete, func, select
from sqlalchemy.orm import Session

from nac.cellformat.self_test_ticket import NAS_IDENTIFIER
from nac.kit.db.queries import contains_text, in_array
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import TenantId
from nac.models import AuthLog, SignUp, Tenant, Trial

ORDERS = SortOrders(
    {
        "tenant_id": (Trial.tenant_id,),
        "organisation": (Trial.organisation, Trial.tenant_id),
        "email": (Trial.email, Trial.tenant_id),
        "created_at": (Trial.created_at, Trial.tenant_id),
        "ends_at": (Trial.ends_at, Trial.tenant_id),
    }
)
# Key of the advisory lock under which Admit counts sign-ups.
_LOCK = 7_301_441


def lock_sign_ups(session: Session) -> None:
    session.execute(select(func.pg_advisory_xact_lock(_LOCK)))


def count_sign_ups(session: Session, since: datetime, *which: ColumnElement[bool]) -> int:
    query = select(func.count()).select_from(SignUp).where(SignUp.created_at >= since, *which)
    return session.scalars(query).one()


def count_confirmed(session: Session, since: datetime, *which: ColumnElement[bool]) -> int:
    query = select(func.count()).select_from(SignUp).where(SignUp.confirmed_at >= since, *which)
    return session.scalars(query).one()


def get_by_token(session: Session, token_sha256: bytes, *, lock: bool) -> SignUp | None:
    query = select(SignUp).where(SignUp.token_sha256 == token_sha256)
    return session.scalar(query.with_for_update() if lock else query)


def lock_sign_up(session: Session, sign_up_id: UUID) -> SignUp | None:
    query = select(SignUp).where(SignUp.id == sign_up_id).with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def take_unfinished(session: Session, *, now: datetime, lease: timedelta, most: int) -> list[UUID]:
    """Reserve confirmed sign-ups that have no tenant yet, for the time `lease`. Returns the ids of the sign-ups."""
    rows = session.scalars(
        select(SignUp)
        .where(SignUp.state == "provisioning", SignUp.due_at <= now)
        .order_by(SignUp.due_at)
        .limit(most)
        .with_for_update(skip_locked=True)
    ).all()
    for row in rows:
        row.due_at = now + lease
        row.attempts += 1
    return [row.id for row in rows]


def count_open(session: Session) -> int:
    """Return the number of trials that are not converted, including trials that are being created."""
    trials = select(func.count()).select_from(Trial).where(Trial.state != "converted")
    made = select(func.count()).select_from(SignUp).where(SignUp.state == "provisioning")
    return session.scalars(trials).one() + session.scalars(made).one()


def get(session: Session, tenant_id: TenantId, *, lock: bool = False) -> Trial | None:
    query = select(Trial).where(Trial.tenant_id == tenant_id)
    return session.scalar(query.with_for_update().execution_options(populate_existing=True) if lock else query)


def list_page(session: Session, *, span: PageSpan, text: str, states: Collection[str]) -> Sequence[Trial]:
    query = span.of(select(Trial))
    if text:
        query = query.where(contains_text(text, Trial.organisation, Trial.email))
    if states:
        query = query.where(Trial.state.in_(states))
    return session.scalars(query).all()


def slugs_by_tenant(session: Session, tenant_ids: Collection[TenantId]) -> dict[TenantId, str]:
    query = select(Tenant.id, Tenant.slug).where(in_array(Tenant.id, tenant_ids))
    return {TenantId(tenant_id): slug for tenant_id, slug in session.execute(query)}


def list_open(session: Session) -> Sequence[TenantId]:
    return session.scalars(select(Trial.tenant_id).where(Trial.state != "converted").order_by(Trial.ends_at)).all()


def count_authentications(session: Session, tenant_id: TenantId, since: datetime, *, most: int) -> int:
    """Return the number of the tenant's authentications since `since`, without self-tests. Counts up to `most`."""
    rows = (
        select(AuthLog.id)
        .where(AuthLog.tenant_id == tenant_id, AuthLog.at >= since, AuthLog.nas_identifier != NAS_IDENTIFIER)
        .limit(most)
    )
    return session.scalars(select(func.count()).select_from(rows.subquery())).one()


def delete_sign_ups(session: Session, *, before: datetime) -> int:
    """Delete sign-ups older than `before`, unless their tenant is being created. Returns the number of deleted rows."""
    result = session.execute(delete(SignUp).where(SignUp.created_at < before, SignUp.state != "provisioning"))
    assert isinstance(result, CursorResult)
    return result.rowcount
