"""Sites of a tenant: locations of NASes, each with a policy."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.clock import utc_now
from nac.db.sort_orders import PageSpan
from nac.engine.time_windows import parse_time_zone
from nac.errors import AlreadyExists, Conflict, InUse, InvalidInput, NotFound
from nac.ids import TenantId
from nac.locking import lock_with_namesakes
from nac.models import Policy, Site, Tenant
from nac.policies.document_checks import check_at_site, check_fallback
from nac.policies.policy_references import require_unreferenced
from nac.sites import repository
from nac.sites.repository import ORDERS as ORDERS
from nac.validation import require_name, require_slug

# Default of arguments for which None has a meaning.
UNCHANGED: Any = object()
# Sessions of a removed NAS never get a Stop. NASes usually report live sessions at least hourly.
_SILENCE_LIMIT = timedelta(days=1)


class SiteNotFound(NotFound):
    """The site does not exist."""


def create_site(
    session: Session, *, actor: str, tenant_id: TenantId, slug: str, name: str = "", time_zone: str = "UTC"
) -> Site:
    """Create a site. It has no policy and denies everything until one is assigned."""
    require_slug(slug)
    if repository.get_by_slug(session, tenant_id, slug):
        raise AlreadyExists(f"Site {slug!r} already exists.", place="slug")
    site = Site(tenant_id=tenant_id, slug=slug, name=require_name(name or slug), time_zone=require_time_zone(time_zone))
    session.add(site)
    session.flush()
    after = {"name": site.name, "time_zone": time_zone}
    audit.append(session, actor=actor, action="site.add", target=slug, tenant_id=tenant_id, after=after)
    return site


def assign_policy(session: Session, *, actor: str, tenant_id: TenantId, slug: str, policy_id: UUID | None) -> Site:
    """Set the policy of a site; None denies everything.

    Raises Conflict if an unpublished policy would replace a published one: every device would be denied.
    """
    site = require_by_slug(session, tenant_id=tenant_id, slug=slug)
    if policy_id is not None:
        # Prevents a publication that does not yet check this site.
        policy = session.get(Policy, policy_id, with_for_update=True)
        if policy is None or policy.tenant_id != tenant_id:
            raise NotFound("The policy does not exist.", place="policy", remedy="List policies: ./admit policy list")
        current = session.get(Policy, site.policy_id) if site.policy_id else None
        if policy.published_version is None and current is not None and current.published_version is not None:
            raise Conflict(
                f"Policy {policy.slug!r} is not published. Site {slug} would deny everyone; it now uses"
                f" {current.slug!r}.",
                place="policy",
                remedy=f"Publish it first: ./admit policy publish -s {policy.slug}",
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
    """Change the values that are set. `fallback` is an outcome as JSON; None restores the policy's own.

    With `monitor`, the policy's verdicts are only logged and the fallback admits. Raises InvalidPolicy with every
    mistake of the fallback, and InUse if a policy refers to the old name.
    """
    site = require_by_slug(session, tenant_id=tenant_id, slug=slug)
    before = _describe(site)
    if name is not None:
        _rename(session, site, require_name(name or slug))
    if monitor is not None:
        site.monitor = monitor
    if time_zone is not None:
        site.time_zone = require_time_zone(time_zone)
    if fallback is not UNCHANGED:
        if fallback is not None:
            check_fallback(session, tenant_id=tenant_id, document=fallback)
        site.fallback = cast("dict[str, Any] | None", fallback)
        # Checks only the fallback: this change does not affect the policy.
        check_at_site(session, site=site, policy_id=None)
    session.flush()
    after = _describe(site)
    if changed := [key for key in after if after[key] != before[key]]:
        audit.append(
            session,
            actor=actor,
            action="site.set",
            target=slug,
            tenant_id=tenant_id,
            before={key: before[key] for key in changed},
            after={key: after[key] for key in changed},
        )
    return site


def _rename(session: Session, site: Site, name: str) -> None:
    if name != site.name:
        namesakes = lock_with_namesakes(session, site)
        _require_not_in_policies(session, site, namesakes, place="name")
        site.name = name


def _require_not_in_policies(session: Session, site: Site, namesakes: Sequence[Site], *, place: str) -> None:
    """Raise InUse if a policy refers to the name and no other site has it."""
    if not namesakes:
        require_unreferenced(session, tenant_id=site.tenant_id, kind="site", name=site.name, place=place)


def _describe(site: Site) -> dict[str, Any]:
    return {"name": site.name, "monitor": site.monitor, "time_zone": site.time_zone, "fallback": site.fallback}


def make_default(session: Session, *, actor: str, tenant_id: TenantId, slug: str) -> Site:
    """Make a site the default: requests of unregistered NASes belong to it."""
    site = require_by_slug(session, tenant_id=tenant_id, slug=slug)
    tenant = session.get_one(Tenant, tenant_id)
    if tenant.default_site_id == site.id:
        return site
    before = {"default_site_id": tenant.default_site_id and str(tenant.default_site_id)}
    tenant.default_site_id = site.id
    session.flush()
    audit.append(
        session,
        actor=actor,
        action="site.make-default",
        target=slug,
        tenant_id=tenant_id,
        before=before,
        after={"default_site_id": str(site.id)},
    )
    return site


def delete_site(session: Session, *, actor: str, tenant_id: TenantId, slug: str) -> None:
    """Delete a site.

    Raises InUse for the default site, a site with NASes, pools or live sessions, or if a policy refers to its name.
    """
    site = require_by_slug(session, tenant_id=tenant_id, slug=slug)
    namesakes = lock_with_namesakes(session, site)
    if session.get_one(Tenant, tenant_id).default_site_id == site.id:
        raise InUse(
            f"Site {slug!r} is the default site of unregistered NASes.",
            place="site",
            remedy="Make another site the default first: ./admit site make-default",
        )
    if count := repository.count_nases(session, tenant_id, site.id):
        raise InUse(
            f"Site {slug!r} has {count} NAS{'es' if count > 1 else ''}.",
            place="site",
            remedy="Delete them first, or move them to another site: ./admit nas list, ./admit nas remove",
        )
    if count := repository.count_pools(session, tenant_id, site.id):
        raise InUse(
            f"Site {slug!r} has {count} address pool{'s' if count > 1 else ''}.",
            place="site",
            remedy="Delete them first: ./admit pool list, ./admit pool remove",
        )
    if count := repository.count_live_sessions(session, tenant_id, site.id, heard_since=utc_now() - _SILENCE_LIMIT):
        raise InUse(
            f"Site {slug!r} has {count} live session{'s' if count > 1 else ''}.",
            place="site",
            remedy="Wait until the sessions end. A session without reports counts as ended after a day.",
        )
    _require_not_in_policies(session, site, namesakes, place="site")
    session.delete(site)
    session.flush()
    audit.append(
        session, actor=actor, action="site.remove", target=slug, tenant_id=tenant_id, before={"name": site.name}
    )


def list_sites(session: Session, *, tenant_id: TenantId) -> Sequence[Site]:
    """List all sites by slug."""
    return repository.list_all(session, tenant_id)


def list_page(
    session: Session, *, tenant_id: TenantId, span: PageSpan, text: str = "", policy_id: UUID | None = None
) -> Sequence[Site]:
    """List sites; `text` is part of the slug or name, and `policy_id` the policy assigned to the site."""
    return repository.list_page(session, tenant_id, span=span, text=text, policy_id=policy_id)


def require_by_slug(session: Session, *, tenant_id: TenantId, slug: str) -> Site:
    site = repository.get_by_slug(session, tenant_id, slug)
    if site is None:
        raise SiteNotFound(f"Site {slug!r} does not exist.", place="site", remedy="List sites: ./admit site list")
    return site


def get_default(session: Session, *, tenant_id: TenantId) -> Site | None:
    """Return the site of unregistered NASes."""
    site_id = session.get_one(Tenant, tenant_id).default_site_id
    return None if site_id is None else session.get_one(Site, site_id)


def require_default(session: Session, *, tenant_id: TenantId) -> Site:
    site = get_default(session, tenant_id=tenant_id)
    if site is None:
        raise SiteNotFound(
            "The tenant has no default site.", place="site", remedy="Choose one: ./admit site make-default"
        )
    return site


def require_time_zone(name: str) -> str:
    try:
        parse_time_zone(name)
    except ValueError as exc:
        raise InvalidInput(
            f"Unknown time zone {name!r}.", place="time_zone", remedy="Use an IANA name, such as Europe/Berlin."
        ) from exc
    return name
