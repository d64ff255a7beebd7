"""Database access for templates and roll-outs. Statistical test for changes of a tenant's share of rejected devices."""

from collections.abc import Collection, Sequence
from datetime import datetime
from math import exp, lgamma
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Row, case, distinct, func, or_, select
from sqlalchemy.orm import Session

from nac.cellformat.self_test_ticket import NAS_IDENTIFIER as SELF_TEST_NAS
from nac.kit.db.queries import contains_text
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import MspId, TenantId
from nac.models import AuthLog, Rollout, RolloutTenant, Template, TemplateTenant, TemplateVersion, Tenant

# Two-sided significance level. At about one of a thousand tenants, the test reports a change that is only chance.
SIGNIFICANCE_LEVEL = 0.001


class DeviceCounts(NamedTuple):
    """Number of rejected devices, and of all devices, in a period. A device with several attempts counts once."""

    rejected: int
    all: int

    @property
    def share(self) -> float:
        return self.rejected / self.all if self.all else 0.0


def has_share_moved(before: DeviceCounts, since: DeviceCounts, *, most: float) -> bool:
    """Return whether the share of rejected devices changed significantly, and by more than `most` (0.05 for 5 of 100).

    A decrease also counts, because a wrong policy may admit all devices. The test ignores differences between few
    devices. For example, 1 rejected device of 1 is not significant, but 5 of 5 after 0 of 20 is significant. A period
    without devices counts as no change, because devices may be off at night.
    """
    if not before.all or not since.all:
        return False
    return abs(since.share - before.share) > most and compute_p_value(before, since) < SIGNIFICANCE_LEVEL


def is_conclusive(before: DeviceCounts, since: DeviceCounts, *, most: float) -> bool:
    """Return whether the periods have enough devices to detect a change."""
    return any(has_share_moved(before, DeviceCounts(rejected, since.all), most=most) for rejected in (0, since.all))


def compute_p_value(before: DeviceCounts, since: DeviceCounts) -> float:
    """Return the probability that chance causes a difference of at least this size (Fisher's exact test, two-sided)."""
    rejected = before.rejected + since.rejected
    lowest, highest = max(0, rejected - before.all), min(rejected, since.all)
    seen = _hypergeometric(since.rejected, before.all, since.all, rejected)
    # The tolerance is for rounding errors of the logarithms.
    return min(
        1.0,
        sum(
            p
            for k in range(lowest, highest + 1)
            if (p := _hypergeometric(k, before.all, since.all, rejected)) <= seen * (1 + 1e-7)
        ),
    )


def _hypergeometric(k: int, before: int, since: int, rejected: int) -> float:
    """Return the hypergeometric probability that `k` of the `rejected` devices are in the later period."""
    return exp(_log_binomial(since, k) + _log_binomial(before, rejected - k) - _log_binomial(before + since, rejected))


def _log_binomial(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


FOLLOWER_ORDERS = SortOrders(
    {
        "slug": (Tenant.slug,),
        "name": (Tenant.name, Tenant.slug),
        "version": (TemplateTenant.version, Tenant.slug),
        "applied_at": (TemplateTenant.applied_at, Tenant.slug),
    }
)
TEMPLATE_ORDERS = SortOrders(
    {
        "slug": (Template.slug,),
        "name": (Template.name, Template.slug),
        "created_at": (Template.created_at, Template.slug),
        "updated_at": (Template.updated_at, Template.slug),
    }
)
VERSION_ORDERS = SortOrders({"number": (TemplateVersion.number,)}, default="-number")
ROLLOUT_ORDERS = SortOrders({"created_at": (Rollout.created_at, Rollout.id)}, default="-created_at")


def get_by_slug(session: Session, msp_id: MspId, slug: str, *, lock: bool = False) -> Template | None:
    query = select(Template).where(Template.msp_id == msp_id, Template.slug == slug)
    if lock:
        query = query.with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def list_all(session: Session, msp_id: MspId) -> Sequence[Template]:
    return session.scalars(select(Template).where(Template.msp_id == msp_id).order_by(Template.slug)).all()


def list_page(session: Session, msp_id: MspId, *, span: PageSpan, text: str) -> Sequence[Template]:
    query = select(Template).where(Template.msp_id == msp_id)
    if text:
        query = query.where(contains_text(text, Template.slug, Template.name))
    return session.scalars(span.of(query)).all()


def get_version(session: Session, template: Template, number: int) -> TemplateVersion | None:
    return session.get(TemplateVersion, (template.id, number))


def list_versions(session: Session, template: Template, *, span: PageSpan) -> Sequence[TemplateVersion]:
    return session.scalars(span.of(select(TemplateVersion).where(TemplateVersion.template_id == template.id))).all()


def list_versions_to_come(session: Session, template: Template) -> Sequence[TemplateVersion]:
    """Return the newest version of the template, and the versions that active roll-outs distribute."""
    under_way = select(Rollout.version).where(Rollout.template_id == template.id, Rollout.state == "running")
    row = TemplateVersion
    wanted = or_(row.number == template.newest, row.number.in_(under_way))
    return session.scalars(select(row).where(row.template_id == template.id, wanted).order_by(row.number)).all()


def list_followers(
    session: Session,
    template: Template,
    *,
    span: PageSpan | None = None,
    only: Collection[TenantId] | None = None,
) -> Sequence[Row[TemplateTenant, Tenant]]:
    """Return the tenants that follow the template. Without `span`, returns all followers, ordered by slug.

    `only` limits the result to these tenants.
    """
    query = (
        select(TemplateTenant, Tenant)
        .join(Tenant, Tenant.id == TemplateTenant.tenant_id)
        .where(TemplateTenant.template_id == template.id)
    )
    if only is not None:
        query = query.where(Tenant.id.in_(only))
    query = FOLLOWER_ORDERS[FOLLOWER_ORDERS.default].apply_to(query) if span is None else span.of(query)
    return session.execute(query.execution_options(populate_existing=True)).all()


def lock_follower(session: Session, msp_id: MspId, tenant_id: TenantId) -> TemplateTenant | None:
    query = select(TemplateTenant).where(TemplateTenant.msp_id == msp_id, TemplateTenant.tenant_id == tenant_id)
    return session.scalar(query.with_for_update().execution_options(populate_existing=True))


def get_rollout(session: Session, msp_id: MspId, rollout_id: UUID, *, lock: bool = False) -> Rollout | None:
    query = select(Rollout).where(Rollout.msp_id == msp_id, Rollout.id == rollout_id)
    if lock:
        query = query.with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def is_rollout_open(session: Session, template: Template) -> bool:
    wanted = Rollout.template_id == template.id, Rollout.state.in_(("running", "rolling-back"))
    return session.scalar(select(Rollout.id).where(*wanted).limit(1)) is not None


def lock_running(session: Session, msp_id: MspId) -> Sequence[Rollout]:
    query = select(Rollout).where(Rollout.msp_id == msp_id, Rollout.state.in_(("running", "rolling-back")))
    query = query.order_by(Rollout.id).with_for_update()
    return session.scalars(query.execution_options(populate_existing=True)).all()


def list_rollouts(session: Session, template: Template, *, span: PageSpan) -> Sequence[Rollout]:
    return session.scalars(span.of(select(Rollout).where(Rollout.template_id == template.id))).all()


def list_rollout_tenants(session: Session, rollout: Rollout) -> Sequence[Row[RolloutTenant, Tenant]]:
    """Return the tenants of a roll-out, ordered by stage and slug."""
    query = (
        select(RolloutTenant, Tenant)
        .join(Tenant, Tenant.id == RolloutTenant.tenant_id)
        .where(RolloutTenant.rollout_id == rollout.id)
        .order_by(RolloutTenant.stage, Tenant.slug)
    )
    return session.execute(query.execution_options(populate_existing=True)).all()


def count_devices(session: Session, tenant_id: TenantId, since: datetime, until: datetime) -> DeviceCounts:
    """Count the tenant's rejected devices and all devices from `since` (included) to `until` (excluded).

    Ignores self-tests, and rejections because the tenant was suspended. Requires a scope that sees the tenant's rows.
    """
    device = func.coalesce(func.cast(AuthLog.mac, AuthLog.identity.type), AuthLog.identity)
    query = select(func.count(distinct(case((~AuthLog.permitted, device)))), func.count(distinct(device)))
    query = query.where(AuthLog.tenant_id == tenant_id, AuthLog.at >= since, AuthLog.at < until)
    query = query.where(AuthLog.nas_identifier != SELF_TEST_NAS)
    row = session.execute(query.where(AuthLog.reason != "tenant-suspended")).one()
    return DeviceCounts(int(row[0]), int(row[1]))
