"""Sites of a tenant. A site is a location of NASes and has a policy."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.core.locking import lock_with_namesakes
from nac.engine.time_windows import parse_time_zone
from nac.kit.advice import Advice, NextStep
from nac.kit.clock import utc_now
from nac.kit.db.queries import contains_text
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.errors import AlreadyExists, InUse, InvalidInput, NotFound
from nac.kit.ids import TenantId
from nac.kit.validation import require_name, require_slug
from nac.models import Nas, Pool, RadiusSession, Site, Tenant
from nac.tenancy.policy_references import require_unreferenced

# Time without accounting reports after which a live session no longer prevents the deletion of its site. A NAS that was
# removed never sends a Stop. NASes usually report live sessions at least hourly.
_SILENCE_LIMIT = timedelta(days=1)
_DEFAULT_STEP = NextStep("updateSite", {"default": "true"})
ORDERS = SortOrders({"slug": (Site.slug,), "name": (Site.name, Site.slug), "time_zone": (Site.time_zone, Site.slug)})


class SiteNotFound(NotFound):
    """The site does not exist."""


def create_site(
    session: Session, *, actor: str, tenant_id: TenantId, slug: str, name: str = "", time_zone: str = "UTC"
) -> Site:
    """Create a site. Without a policy, the site denies all requests."""
    require_slug(slug)
    if _get_site(session, tenant_id, slug):
        raise AlreadyExists(f"Site {slug!r} already exists.", place="slug")
    site = Site(tenant_id=tenant_id, slug=slug, name=require_name(name or slug), time_zone=require_time_zone(time_zone))
    session.add(site)
    session.flush()
    after = {"name": site.name, "time_zone": time_zone}
    audit.append(session, actor=actor, action="site.add", target=slug, tenant_id=tenant_id, after=after)
    return site


def require_not_in_policies(session: Session, site: Site, namesakes: Sequence[Site], *, place: str) -> None:
    """Raise InUse if a policy refers to the site's name and `namesakes` (other sites with this name) is empty."""
    if not namesakes:
        require_unreferenced(session, tenant_id=site.tenant_id, kind="site", name=site.name, place=place)


def make_default(session: Session, *, actor: str, tenant_id: TenantId, slug: str) -> Site:
    """Make a site the default site. Requests from unregistered NASes belong to the default site."""
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

    Raises InUse if the site is the default site, if it has NASes, pools or live sessions, or if a policy refers to the
    site's name.
    """
    site = require_by_slug(session, tenant_id=tenant_id, slug=slug)
    namesakes = lock_with_namesakes(session, site)
    if session.get_one(Tenant, tenant_id).default_site_id == site.id:
        raise InUse(
            f"Site {slug!r} is the default site of unregistered NASes.",
            place="site",
            remedy=Advice("Make another site the default first", _DEFAULT_STEP),
        )
    if count := _count_nases(session, tenant_id, site.id):
        raise InUse(
            f"Site {slug!r} has {count} NAS{'es' if count > 1 else ''}.",
            place="site",
            remedy=Advice(
                "Delete these NASes first, or move them to another site",
                *("listNases", "deleteNas", NextStep("updateNas", {"site": ""})),
            ),
        )
    if count := _count_pools(session, tenant_id, site.id):
        raise InUse(
            f"Site {slug!r} has {count} address pool{'s' if count > 1 else ''}.",
            place="site",
            remedy=Advice("Delete the pools first", "listPools", "deletePool"),
        )
    if count := _count_live_sessions(session, tenant_id, site.id, heard_since=utc_now() - _SILENCE_LIMIT):
        raise InUse(
            f"Site {slug!r} has {count} live session{'s' if count > 1 else ''}.",
            place="site",
            remedy="Wait until the sessions end. A session without reports counts as ended after a day.",
        )
    require_not_in_policies(session, site, namesakes, place="site")
    session.delete(site)
    session.flush()
    audit.append(
        session, actor=actor, action="site.remove", target=slug, tenant_id=tenant_id, before={"name": site.name}
    )


def list_sites(session: Session, *, tenant_id: TenantId) -> Sequence[Site]:
    """List all sites of the tenant, ordered by slug."""
    return session.scalars(select(Site).where(Site.tenant_id == tenant_id).order_by(Site.slug)).all()


def list_page(
    session: Session, *, tenant_id: TenantId, span: PageSpan, text: str = "", policy_id: UUID | None = None
) -> Sequence[Site]:
    """List sites. `text` is a part of the slug or name. `policy_id` selects sites with this policy."""
    query = select(Site).where(Site.tenant_id == tenant_id)
    if text:
        query = query.where(contains_text(text, Site.slug, Site.name))
    if policy_id is not None:
        query = query.where(Site.policy_id == policy_id)
    return session.scalars(span.of(query)).all()


def require_by_slug(session: Session, *, tenant_id: TenantId, slug: str) -> Site:
    site = _get_site(session, tenant_id, slug)
    if site is None:
        raise SiteNotFound(f"Site {slug!r} does not exist.", place="site", remedy=Advice("List sites", "listSites"))
    return site


def get_default(session: Session, *, tenant_id: TenantId) -> Site | None:
    """Return the default site, to which unregistered NASes belong."""
    site_id = session.get_one(Tenant, tenant_id).default_site_id
    return None if site_id is None else session.get_one(Site, site_id)


def require_default(session: Session, *, tenant_id: TenantId) -> Site:
    site = get_default(session, tenant_id=tenant_id)
    if site is None:
        raise SiteNotFound(
            "The tenant has no default site.", place="site", remedy=Advice("Choose a default site", _DEFAULT_STEP)
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


def _get_site(session: Session, tenant_id: TenantId, slug: str) -> Site | None:
    return session.scalar(select(Site).where(Site.tenant_id == tenant_id, Site.slug == slug))


def _count_nases(session: Session, tenant_id: TenantId, site_id: UUID) -> int:
    query = select(func.count()).where(Nas.tenant_id == tenant_id, Nas.site_id == site_id)
    return session.scalars(query).one()


def _count_pools(session: Session, tenant_id: TenantId, site_id: UUID) -> int:
    query = select(func.count()).where(Pool.tenant_id == tenant_id, Pool.site_id == site_id)
    return session.scalars(query).one()


def _count_live_sessions(session: Session, tenant_id: TenantId, site_id: UUID, *, heard_since: datetime) -> int:
    query = select(func.count()).where(
        RadiusSession.tenant_id == tenant_id,
        RadiusSession.site_id == site_id,
        RadiusSession.stopped_at.is_(None),
        RadiusSession.updated_at >= heard_since,
    )
    return session.scalars(query).one()
