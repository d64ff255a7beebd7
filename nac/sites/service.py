"""Sites of a tenant: where its NASes are, and which policy decides there."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.clock import utc_now
from nac.db.orders import Span
from nac.engine.windows import read_time_zone
from nac.errors import AlreadyExists, Conflict, InUse, InvalidInput, NotFound
from nac.ids import TenantId
from nac.locking import lock_with_namesakes
from nac.models import Policy, Site, Tenant
from nac.policies.document_checks import check_at_site, check_fallback
from nac.policies.policy_references import require_unreferenced
from nac.sites import repository
from nac.sites.repository import ORDERS as ORDERS
from nac.validation import require_name, require_slug

# For what may be set to None.
UNCHANGED: Any = object()
# Sessions whose NAS was taken away never see a Stop; NASes commonly tell of live ones each hour or more often.
_SILENCE_LIMIT = timedelta(days=1)


class SiteNotFound(NotFound):
    """There is no such site."""


def create_site(
    session: Session, *, actor: str, tenant_id: TenantId, slug: str, name: str = "", time_zone: str = "UTC"
) -> Site:
    """A site without policy: it denies everything until one is assigned."""
    require_slug(slug)
    if repository.get_by_slug(session, tenant_id, slug):
        raise AlreadyExists(f"There is a site {slug!r} already.", place="slug")
    site = Site(tenant_id=tenant_id, slug=slug, name=require_name(name or slug), time_zone=require_time_zone(time_zone))
    session.add(site)
    session.flush()
    after = {"name": site.name, "time_zone": time_zone}
    audit.append(session, actor=actor, action="site.add", target=slug, tenant_id=tenant_id, after=after)
    return site


def assign_policy(session: Session, *, actor: str, tenant_id: TenantId, slug: str, policy_id: UUID | None) -> Site:
    """Which policy decides at the site; None denies everything.

    Raises Conflict where that would put a policy that was never published in the place of one in force: nobody means to
    turn every device of a working site away.
    """
    site = require_by_slug(session, tenant_id=tenant_id, slug=slug)
    if policy_id is not None:
        # Nobody publishes it until the site is among those that are looked at then.
        policy = session.get(Policy, policy_id, with_for_update=True)
        if policy is None or policy.tenant_id != tenant_id:
            raise NotFound("There is no such policy.", place="policy", remedy="They are listed by: ./admit policy list")
        current = session.get(Policy, site.policy_id) if site.policy_id else None
        if policy.published_version is None and current is not None and current.published_version is not None:
            raise Conflict(
                f"Policy {policy.slug!r} was never published: site {slug} would deny everyone, "
                f"and {current.slug!r} is in force there.",
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
    """Change what is given. `fallback` is an outcome as a document in place of the policy's own, None for the policy's.

    `monitor`: policy decides nothing there, its verdicts are logged and devices are admitted as the fallback admits.
    Raises InvalidPolicy with every mistake of the fallback, and InUse where a policy names the site as it was called.
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
        # The fallback alone: what NASes cannot do of the policy is no fault of this change.
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
    """Raises InUse while a policy names it, and no other of that name."""
    if not namesakes:
        require_unreferenced(session, tenant_id=site.tenant_id, kind="site", name=site.name, place=place)


def _describe(site: Site) -> dict[str, Any]:
    return {"name": site.name, "monitor": site.monitor, "time_zone": site.time_zone, "fallback": site.fallback}


def make_default(session: Session, *, actor: str, tenant_id: TenantId, slug: str) -> Site:
    """Requests of NASes that are not registered belong to the default site."""
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
    """Raises InUse while it is the default site, has NASes, or sessions that go on, or a policy names it alone."""
    site = require_by_slug(session, tenant_id=tenant_id, slug=slug)
    namesakes = lock_with_namesakes(session, site)
    if session.get_one(Tenant, tenant_id).default_site_id == site.id:
        raise InUse(
            f"Site {slug!r} is the default site: NASes that are not registered belong to it.",
            place="site",
            remedy="Make another one the default first: ./admit site make-default",
        )
    if count := repository.count_nases(session, tenant_id, site.id):
        raise InUse(
            f"Site {slug!r} has {count} NAS{'es' if count > 1 else ''}.",
            place="site",
            remedy="Remove them first, or add them at another site: ./admit nas list, ./admit nas remove",
        )
    if count := repository.count_pools(session, tenant_id, site.id):
        raise InUse(
            f"Site {slug!r} has {count} pool{'s' if count > 1 else ''} of addresses.",
            place="site",
            remedy="Remove them first: ./admit pool list, ./admit pool remove",
        )
    if count := repository.count_live_sessions(session, tenant_id, site.id, heard_since=utc_now() - _SILENCE_LIMIT):
        raise InUse(
            f"Site {slug!r} has {count} session{'s' if count > 1 else ''} that no Stop has ended.",
            place="site",
            remedy="Wait until the devices there have left: after a day of silence one counts so.",
        )
    _require_not_in_policies(session, site, namesakes, place="site")
    session.delete(site)
    session.flush()
    audit.append(
        session, actor=actor, action="site.remove", target=slug, tenant_id=tenant_id, before={"name": site.name}
    )


def list_sites(session: Session, *, tenant_id: TenantId) -> Sequence[Site]:
    """All of them, by slug."""
    return repository.list_all(session, tenant_id)


def list_page(
    session: Session, *, tenant_id: TenantId, span: Span, text: str = "", policy_id: UUID | None = None
) -> Sequence[Site]:
    """`text` is a part of slug or name; `policy_id` asks for those where that policy decides."""
    return repository.list_page(session, tenant_id, span=span, text=text, policy_id=policy_id)


def require_by_slug(session: Session, *, tenant_id: TenantId, slug: str) -> Site:
    site = repository.get_by_slug(session, tenant_id, slug)
    if site is None:
        raise SiteNotFound(f"There is no site {slug!r}.", place="site", remedy="They are listed by: ./admit site list")
    return site


def get_default(session: Session, *, tenant_id: TenantId) -> Site | None:
    """To which NASes belong that are not registered."""
    site_id = session.get_one(Tenant, tenant_id).default_site_id
    return None if site_id is None else session.get_one(Site, site_id)


def require_default(session: Session, *, tenant_id: TenantId) -> Site:
    site = get_default(session, tenant_id=tenant_id)
    if site is None:
        raise SiteNotFound("The tenant has no default site.", place="site", remedy="Say which: ./admit site list")
    return site


def require_time_zone(name: str) -> str:
    try:
        read_time_zone(name)
    except ValueError as exc:
        raise InvalidInput(
            f"{name!r} is no time zone.", place="time_zone", remedy="Use an IANA name, such as Europe/Berlin."
        ) from exc
    return name
