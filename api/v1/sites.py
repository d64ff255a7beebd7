"""Sites of a tenant: locations of NASes, each with a policy."""

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change
from api.routes import NounRouter
from api.v1.inputs import Input, Name, Omittable, Slug, body_example, body_references
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.core.locking import lock_before_site, lock_with_namesakes
from nac.kit.db import lock_row
from nac.kit.permissions import Effect, Permission
from nac.models import Site as SiteRow
from nac.policies import service as policies
from nac.policies import site_settings
from nac.tenancy import sites

router = NounRouter(
    prefix="/tenants/{tenant}/sites",
    tag="sites",
    description="Locations of a tenant, each with a policy, a time zone and a fallback.",
)

_Slug = Annotated[str, Path(max_length=63, description="Slug of the site.")]
_TimeZone = Annotated[str, Field(max_length=100, examples=["Europe/Berlin"])]
Reads = Annotated[Access, Depends(ReadsTenant(Permission.SITE_READ))]
Changes = Annotated[
    Access,
    Depends(ChangesTenant(Permission.SITE_MANAGE, Effect.FACTS, Effect.RULES, also={Permission.POLICY_PUBLISH})),
]
Creates = Annotated[Access, Depends(ChangesTenant(Permission.SITE_MANAGE, Effect.FACTS))]
# These fields determine the rules in force at the site.
_POLICY_FIELDS = {"policy", "monitor", "fallback", "default"}


class Site(BaseModel):
    id: UUID = Field(description="Permanent id of the site.")
    slug: str = Field(description="Slug of the site, which is a DNS label.")
    name: str = Field(description="Name of the site.")
    time_zone: str = Field(
        examples=["Europe/Berlin"], description="IANA time zone of the site, in which policies evaluate times."
    )
    policy: str | None = Field(description="Slug of the site's policy; null to deny everything.")
    default: bool = Field(description="Whether NASes that are not registered belong to the site.")
    monitor: bool = Field(
        description=(
            "Whether the site is in monitor mode: Admit logs verdicts without enforcing them, and admits "
            "devices with the results of the fallback."
        )
    )
    fallback: dict[str, Any] | None = Field(
        description="Outcome to use at this site instead of the policy's fallback; null to use the policy's fallback."
    )


class SiteInput(Input):
    slug: Slug = Field(examples=["branch-north"], description="Slug of the site, which is a DNS label.")
    name: Name = Field("", description="Name of the site.")
    time_zone: _TimeZone = Field("UTC", description="IANA time zone of the site, in which policies evaluate times.")


class SiteUpdate(Input):
    model_config = body_example(
        {"name": "Main site", "time_zone": "Europe/Berlin", "policy": "office", "monitor": False}
    )

    name: Omittable[Name] = Field(None, description="Name of the site.")
    time_zone: Omittable[_TimeZone] = Field(
        None, description="IANA time zone of the site, in which policies evaluate times."
    )
    monitor: Omittable[bool] = Field(
        None,
        description=(
            "Whether the site is in monitor mode: Admit logs verdicts without enforcing them, and admits "
            "devices with the results of the fallback."
        ),
    )
    fallback: dict[str, Any] | None = Field(
        None,
        description="Outcome to use at this site instead of the policy's fallback; null to use the policy's fallback.",
    )
    policy: Slug | None = Field(None, description="Slug of the site's policy; null to deny everything.")
    default: Omittable[bool] = Field(
        None,
        description=(
            "Whether the site is the default site; only true is valid. To change the default site, set `default` "
            "to true at the new default site. Unchanged if omitted."
        ),
    )


@router.get("", operation_id="listSites")
def list_sites(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(sites.ORDERS))],
    text: Annotated[str, Query(max_length=200, description="Part of the slug or name of the sites to list.")] = "",
    policy: Annotated[str, Query(max_length=63, description="Slug of the policy of the sites to list.")] = "",
) -> Page[Site]:
    """List sites, by slug."""
    who: dict[str, Any] = {"tenant_id": access.tenant_id}
    with access.read() as session:
        policy_id = policies.require_by_slug(session, **who, slug=policy).id if policy else None
        rows = sites.list_page(session, **who, span=paging.span, text=text, policy_id=policy_id)
        by_id = {site.id: site for site in _build_sites(session, access, rows)}
        return paging.ordered(rows, lambda row: by_id[row.id])


@router.post("", status_code=201, operation_id="createSite")
def create_site(access: Creates, body: SiteInput) -> Site:
    """Create a site.

    The site denies everything until you assign a policy.
    """
    with access.change() as change:
        row = sites.create_site(change.session, actor=access.actor, tenant_id=access.tenant_id, **body.model_dump())
        change.located(row.slug)
        return change.answer(_build_site(change.session, access, row))


@router.get("/{site}", operation_id="getSite")
def get_site(access: Reads, site: _Slug) -> Site:
    """Get a site."""
    with access.read() as session:
        return access.shown(
            _build_site(session, access, sites.require_by_slug(session, tenant_id=access.tenant_id, slug=site))
        )


@router.patch("/{site}", operation_id="updateSite")
def update_site(access: Changes, site: _Slug, body: SiteUpdate) -> Site:
    """Update a site. Admit makes all changes or none.

    Omitted fields stay unchanged. `policy`, `monitor`, `fallback` and `default` require `policy.publish` too, because
    these fields determine the rules in force.
    """
    if _POLICY_FIELDS & body.model_fields_set:
        access.require(Permission.POLICY_PUBLISH)
    changes = body.model_dump(exclude_unset=True)
    who: dict[str, Any] = {"actor": access.actor, "tenant_id": access.tenant_id, "slug": site}
    with access.change() as change:
        named = {changes["policy"]} if changes.get("policy") else set()
        lock_before_site(
            change.session, tenant_id=access.tenant_id, policies=named, tenant=bool(changes.get("default"))
        )
        row = _require_match(change, access, site, renames="name" in changes)
        if "policy" in changes:
            slug = changes.pop("policy")
            with body_references():
                policy = (
                    policies.require_by_slug(change.session, tenant_id=access.tenant_id, slug=slug) if slug else None
                )
            row = site_settings.assign_policy(change.session, **who, policy_id=policy.id if policy else None)
        if changes.pop("default", None):
            row = sites.make_default(change.session, **who)
        if changes:
            row = site_settings.update_site(change.session, **who, **changes)
        return change.answer(_build_site(change.session, access, row))


@router.delete("/{site}", status_code=204, operation_id="deleteSite")
def delete_site(access: Creates, site: _Slug) -> None:
    """Delete a site.

    You cannot delete the default site, or a site with NASes.
    """
    with access.change() as change:
        _require_match(change, access, site, renames=True)
        sites.delete_site(change.session, actor=access.actor, tenant_id=access.tenant_id, slug=site)
        change.set_empty_response()


def _require_match(change: Change, access: Access, slug: str, *, renames: bool) -> SiteRow:
    row = sites.require_by_slug(change.session, tenant_id=access.tenant_id, slug=slug)
    (lock_with_namesakes if renames else lock_row)(change.session, row)
    change.require_match(_build_site(change.session, access, row))
    return row


def _build_site(session: Session, access: Access, row: SiteRow) -> Site:
    return _build_sites(session, access, [row])[0]


def _build_sites(session: Session, access: Access, rows: Sequence[SiteRow]) -> list[Site]:
    slugs = {policy.id: policy.slug for policy in policies.list_policies(session, tenant_id=access.tenant_id)}
    default = sites.get_default(session, tenant_id=access.tenant_id)
    return [
        Site(
            id=row.id,
            slug=row.slug,
            name=row.name,
            time_zone=row.time_zone,
            policy=slugs[row.policy_id] if row.policy_id else None,
            default=default is not None and row.id == default.id,
            monitor=row.monitor,
            fallback=row.fallback if isinstance(row.fallback, dict) else None,
        )
        for row in rows
    ]
