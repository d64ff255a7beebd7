"""Queries for tenants."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Row, Select, and_, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session

from nac.core.access.grants import TenantReach
from nac.kit.db.queries import contains_text, in_array
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import MspId, TenantId
from nac.kit.validation import parse_id
from nac.models import (
    Certificate,
    CertificateAuthority,
    DecisionCount,
    EndpointEvidence,
    EndpointSighting,
    EndpointWork,
    ExternalCertificate,
    Msp,
    PolicyHits,
    RadiusSession,
    RejectCount,
    RetentionHold,
    SecretRotation,
    Tenant,
)

Query = TypeVar("Query", bound=Select[*tuple[Any, ...]])

ORDERS = SortOrders(
    {
        "slug": (Tenant.slug,),
        "name": (Tenant.name, Tenant.id),
        "status": (Tenant.status, Tenant.id),
        "created_at": (Tenant.created_at, Tenant.id),
    }
)


def get_by_slug(session: Session, slug: str) -> Tenant | None:
    return session.scalar(select(Tenant).where(Tenant.slug == slug))


def lock_tenant(session: Session, tenant_id: TenantId) -> Tenant | None:
    return session.scalar(
        select(Tenant).where(Tenant.id == tenant_id).with_for_update().execution_options(populate_existing=True)
    )


def get(session: Session, tenant_id: TenantId) -> Tenant | None:
    return session.get(Tenant, tenant_id, populate_existing=True)


def list_page(
    session: Session,
    *,
    span: PageSpan,
    only: Collection[TenantId] | None,
    text: str,
    statuses: Collection[str],
) -> Sequence[Tenant]:
    query = span.of(select(Tenant))
    if only is not None:
        query = query.where(in_array(Tenant.id, only))
    return session.scalars(_narrow(query, text, statuses)).all()


def list_visible(
    session: Session,
    reach: TenantReach,
    *,
    span: PageSpan,
    msp_id: MspId | None,
    text: str,
    statuses: Collection[str],
    keys: Collection[str],
    has_two_factors: bool,
) -> Sequence[Tenant]:
    query = restrict_to_reach(span.of(select(Tenant)), reach, msp_id=msp_id, has_two_factors=has_two_factors)
    if keys:
        ids = [each for each in map(parse_id, keys) if each is not None]
        query = query.where(or_(in_array(Tenant.slug, keys), in_array(Tenant.id, ids)))
    return session.scalars(_narrow(query, text, statuses)).all()


def list_reached(
    session: Session, reach: TenantReach, *, msp_id: MspId | None, text: str, has_two_factors: bool
) -> Sequence[Row[*tuple[Any, ...]]]:
    """Return all tenants in reach: id, slug, name, status, msp_id, is_msp_suspended, and msp.

    `msp` is the slug of the MSP; None if the scope cannot read the MSP.
    """
    # Check each MSP once, not for each of its tenants. OFFSET 0 keeps the planner from merging the queries.
    msp_ids = select(Tenant.msp_id).distinct().subquery()
    is_suspended = func.is_suspended_msp(msp_ids.c.msp_id).label("is_suspended")
    msps = select(msp_ids.c.msp_id, is_suspended).offset(0).subquery()
    query = (
        select(Tenant.id, Tenant.slug, Tenant.name, Tenant.status, Tenant.msp_id)
        .add_columns(msps.c.is_suspended.label("is_msp_suspended"), Msp.slug.label("msp"))
        .join(msps, msps.c.msp_id == Tenant.msp_id)
        .outerjoin(Msp, Msp.id == Tenant.msp_id)
    )
    query = restrict_to_reach(
        query, reach, msp_id=msp_id, has_two_factors=has_two_factors, suspended=msps.c.is_suspended
    )
    return session.execute(_narrow(query, text, ())).all()


def restrict_to_reach(
    query: Query,
    reach: TenantReach,
    *,
    msp_id: MspId | None,
    has_two_factors: bool,
    suspended: ColumnElement[bool] | None = None,
) -> Query:
    """Restrict a query for tenants. `suspended` is the condition that the MSP is suspended."""
    if not reach.everything:
        of_msp = or_(in_array(Tenant.msp_id, reach.msps), in_array(Tenant.id, reach.chosen))
        stands = ~(func.is_suspended_msp(Tenant.msp_id) if suspended is None else suspended)
        query = query.where(or_(in_array(Tenant.id, reach.tenants), and_(of_msp, stands)))
    if not has_two_factors:
        query = query.where(~func.wants_two_factors(Tenant.msp_id, Tenant.id))
    if msp_id is not None:
        query = query.where(Tenant.msp_id == msp_id)
    return query


def list_names(
    session: Session,
    reach: TenantReach,
    *,
    tenant_id: TenantId | None,
    msp_id: MspId | None,
    has_two_factors: bool,
    limit: int,
) -> Sequence[Row[TenantId, str, str]]:
    """List id, slug and name of tenants, without the rest of the rows."""
    query = select(Tenant.id, Tenant.slug, Tenant.name)
    query = restrict_to_reach(query, reach, msp_id=msp_id, has_two_factors=has_two_factors)
    if tenant_id is not None:
        query = query.where(Tenant.id == tenant_id)
    return session.execute(query.order_by(Tenant.slug).limit(limit)).all()


def _narrow(query: Query, text: str, statuses: Collection[str]) -> Query:
    if text:
        query = query.where(contains_text(text, Tenant.slug, Tenant.name))
    return query.where(Tenant.status.in_(statuses)) if statuses else query


def list_due(session: Session, *, now: datetime, limit: int) -> Sequence[Tenant]:
    """Return tenants whose purge date has passed."""
    return session.scalars(select(Tenant).where(Tenant.purge_at <= now).order_by(Tenant.purge_at).limit(limit)).all()


def filter_existing(session: Session, tenant_ids: Collection[TenantId]) -> set[TenantId]:
    return set(session.scalars(select(Tenant.id).where(in_array(Tenant.id, tenant_ids))))


def has_complete_authorities(session: Session, tenant_id: TenantId) -> bool:
    """Whether the tenant has ever had its own certificate authority and a server certificate for EAP."""
    authority = exists().where(CertificateAuthority.tenant_id == tenant_id, CertificateAuthority.kind != "external")
    server = exists().where(
        Certificate.tenant_id == tenant_id,
        Certificate.profile == "eap-server",
        Certificate.key_sealed.is_not(None),
    )
    return bool(session.scalar(select(authority & server)))


def has_hold(session: Session, tenant_id: TenantId) -> bool:
    """Whether a legal hold prevents the deletion of the tenant's logs. Call this function in the tenant's scope."""
    in_force = select(RetentionHold.id).where(RetentionHold.tenant_id == tenant_id, RetentionHold.cleared_at.is_(None))
    return session.scalar(in_force.limit(1)) is not None


def extend_rotations(session: Session, tenant_id: TenantId, *, until: datetime) -> None:
    """Extend the secret rotations of the tenant so that none ends before `until`.

    Call this function in the tenant's scope.
    """
    session.execute(
        update(SecretRotation)
        .where(SecretRotation.tenant_id == tenant_id, SecretRotation.state == "running", SecretRotation.ends_at < until)
        .values(ends_at=until)
    )


def delete_tenant_rows(session: Session, tenant_id: TenantId) -> None:
    """Delete the tenant and its rows, except logs. A later job deletes logs in batches."""
    for unreferenced in (
        *(RadiusSession, EndpointSighting, EndpointEvidence, EndpointWork, PolicyHits),
        *(DecisionCount, RejectCount, ExternalCertificate),
    ):
        session.execute(delete(unreferenced).where(unreferenced.tenant_id == tenant_id))
    session.execute(delete(Tenant).where(Tenant.id == tenant_id))
