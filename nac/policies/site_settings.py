"""Changes settings of a site that affect its policy: the policy itself, fallback, monitor mode, name, time zone."""

from typing import Any, cast
from uuid import UUID

from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.core.locking import lock_with_namesakes
from nac.kit.advice import Advice, NextStep
from nac.kit.errors import Conflict, NotFound
from nac.kit.ids import TenantId
from nac.kit.validation import require_name
from nac.models import Policy, Site
from nac.policies.document_checks import check_at_site, check_fallback
from nac.tenancy import sites

# Default of arguments for which None has a meaning.
UNCHANGED: Any = object()


def assign_policy(session: Session, *, actor: str, tenant_id: TenantId, slug: str, policy_id: UUID | None) -> Site:
    """Set the policy of a site. If `policy_id` is None, the site denies everything.

    Raises Conflict if an unpublished policy would replace a published policy, because the site would deny every device.
    """
    site = sites.require_by_slug(session, tenant_id=tenant_id, slug=slug)
    if policy_id is not None:
        # Lock the policy, so that a concurrent publication does not miss the check at this site.
        policy = session.get(Policy, policy_id, with_for_update=True)
        if policy is None or policy.tenant_id != tenant_id:
            raise NotFound("The policy does not exist.", place="policy", remedy=Advice("List policies", "listPolicies"))
        current = session.get(Policy, site.policy_id) if site.policy_id else None
        if policy.published_version is None and current is not None and current.published_version is not None:
            raise Conflict(
                f"Policy {policy.slug!r} is not published. Site {slug} would deny all requests. The current policy of"
                f" the site is {current.slug!r}.",
                place="policy",
                remedy=Advice("Publish the policy first", NextStep("publishPolicy", {"policy": policy.slug})),
            )
        check_at_site(session, site=site, policy_id=policy_id)
    if site.policy_id == policy_id:
        return site
    before = {"policy_id": site.policy_id and str(site.policy_id)}
    site.policy_id = policy_id
    session.flush()
    after = {"policy_id": policy_id and str(policy_id)}
    audit.append(
        session, actor=actor, action="site.assign-policy", target=slug, tenant_id=tenant_id, before=before, after=after
    )
    return site


def update_site(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    slug: str,
    name: str | None = None,
    monitor: bool | None = None,
    time_zone: str | None = None,
    fallback: object = UNCHANGED,
) -> Site:
    """Change the settings that are not None or UNCHANGED.

    `fallback` is an outcome as JSON; None restores the policy's fallback. With `monitor`, Admit only logs verdicts, and
    devices get the result of the fallback. Raises InvalidPolicy with every mistake of the fallback, and InUse if a
    policy refers to the old name.
    """
    site = sites.require_by_slug(session, tenant_id=tenant_id, slug=slug)
    before = _describe(site)
    if name is not None:
        _rename(session, site, require_name(name or slug))
    if monitor is not None:
        site.monitor = monitor
    if time_zone is not None:
        site.time_zone = sites.require_time_zone(time_zone)
    if fallback is not UNCHANGED:
        if fallback is not None:
            check_fallback(session, tenant_id=tenant_id, document=fallback)
        site.fallback = cast("dict[str, Any] | None", fallback)
        # Check only the fallback, because this change does not affect the policy.
        check_at_site(session, site=site, policy_id=None)
    session.flush()
    after = _describe(site)
    audit.append_difference(
        session, actor=actor, action="site.set", target=slug, tenant_id=tenant_id, before=before, after=after
    )
    return site


def _rename(session: Session, site: Site, name: str) -> None:
    if name != site.name:
        namesakes = lock_with_namesakes(session, site)
        sites.require_not_in_policies(session, site, namesakes, place="name")
        site.name = name


def _describe(site: Site) -> dict[str, Any]:
    return {"name": site.name, "monitor": site.monitor, "time_zone": site.time_zone, "fallback": site.fallback}
