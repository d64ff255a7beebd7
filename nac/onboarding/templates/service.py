"""Service for an MSP's templates: versions, the tenants that follow them, and drift. Requires the MSP's scope."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from nac.core.access.tenant_lookup import find_tenant
from nac.core.audit import service as audit
from nac.kit.db import enter_tenant, lock_quota
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import AlreadyExists, Conflict, InUse, InvalidInput, NotFound
from nac.kit.ids import MspId, TenantId
from nac.kit.validation import require_name, require_slug
from nac.models import Template, TemplateTenant, TemplateVersion, Tenant
from nac.onboarding.templates import repository
from nac.onboarding.templates.document import PART_PATTERN, list_parts, parse_template, read_template
from nac.onboarding.templates.parts import (
    HeldPermissions,
    read_parts,
    require_permissions_at,
    require_read_permissions_at,
)
from nac.onboarding.templates.repository import FOLLOWER_ORDERS
from nac.tenancy.tenants import service as tenants
from nac.tenancy.tenants.service import TenantNotFound

MAX_TEMPLATES = 100
MAX_OVERRIDES = 500


class TemplateNotFound(NotFound):
    """The template does not exist."""


class TemplateVersionNotFound(NotFound):
    """The version of the template does not exist."""


@dataclass(frozen=True, slots=True)
class DriftedPart:
    """Drift: a part of a tenant that differs from the tenant's version of the template."""

    part: str
    expected: Any
    actual: Any


@dataclass(frozen=True, slots=True)
class TemplateFollower:
    tenant: Tenant
    row: TemplateTenant
    # None if the caller did not request the drift.
    drift: Sequence[DriftedPart] | None = None


def create_template(session: Session, *, actor: str, msp_id: MspId, slug: str, name: str = "") -> Template:
    require_slug(slug)
    if repository.get_by_slug(session, msp_id, slug):
        raise AlreadyExists(f"Template {slug!r} already exists.", place="slug")
    lock_quota(session, "templates", msp_id)
    if len(repository.list_all(session, msp_id)) >= MAX_TEMPLATES:
        raise Conflict(
            f"The MSP already has {MAX_TEMPLATES} templates, the maximum.",
            remedy="Delete templates that no tenant follows.",
        )
    template = Template(msp_id=msp_id, slug=slug, name=require_name(name or slug))
    session.add(template)
    session.flush()
    session.refresh(template)
    _audit(session, actor, template, "create", {"name": template.name})
    return template


def rename_template(session: Session, *, actor: str, msp_id: MspId, slug: str, name: str) -> Template:
    """Change the name of a template. The slug of the template does not change."""
    template = require_template(session, msp_id=msp_id, slug=slug, lock=True)
    before = template.name
    template.name = require_name(name or slug)
    session.flush()
    if template.name != before:
        _audit(session, actor, template, "rename", {"name": template.name}, before={"name": before})
    session.refresh(template)
    return template


def delete_template(session: Session, *, actor: str, msp_id: MspId, slug: str) -> None:
    """Delete a template. Raises InUse while tenants follow the template."""
    template = require_template(session, msp_id=msp_id, slug=slug, lock=True)
    if count := len(repository.list_followers(session, template)):
        raise InUse(
            f"Template {slug!r} has {count} followers.",
            place="template",
            remedy="Release these tenants from the template first.",
        )
    session.delete(template)
    session.flush()
    _audit(session, actor, template, "remove", None)


def save_version(
    session: Session, *, actor: str, msp_id: MspId, slug: str, document: object, comment: str = ""
) -> TemplateVersion:
    """Save a document as the template's newest version. Only a roll-out changes tenants. Raises InvalidTemplate."""
    template = require_template(session, msp_id=msp_id, slug=slug, lock=True)
    parse_template(document)
    template.newest += 1
    version = TemplateVersion(
        template_id=template.id,
        number=template.newest,
        msp_id=msp_id,
        document=document,
        comment=comment,
        created_by=actor,
    )
    session.add(version)
    session.flush()
    session.refresh(version)
    _audit(session, actor, template, "save", {"version": version.number, "comment": comment})
    return version


def list_page(session: Session, *, msp_id: MspId, span: PageSpan, text: str = "") -> Sequence[Template]:
    """List one page of templates. `text` filters by a part of the slug or name."""
    return repository.list_page(session, msp_id, span=span, text=text)


def list_versions(session: Session, *, template: Template, span: PageSpan | None = None) -> Sequence[TemplateVersion]:
    """List the versions of a template, newest first by default."""
    return repository.list_versions(session, template, span=span or repository.VERSION_ORDERS.first(100))


def require_template(session: Session, *, msp_id: MspId, slug: str, lock: bool = False) -> Template:
    template = repository.get_by_slug(session, msp_id, slug, lock=lock)
    if template is None:
        raise TemplateNotFound(f"Template {slug!r} does not exist.", place="template")
    return template


def require_version(session: Session, *, template: Template, number: int) -> TemplateVersion:
    version = repository.get_version(session, template, number)
    if version is None:
        raise TemplateVersionNotFound(f"Template {template.slug!r} has no version {number}.", place="version")
    return version


def find_follower(session: Session, *, msp_id: MspId, slug: str, tenant: str) -> TemplateFollower | None:
    """Return and lock a follower of the template; None if the tenant does not follow this template."""
    template = require_template(session, msp_id=msp_id, slug=slug)
    own = _require_tenant(session, msp_id, tenant)
    row = repository.lock_follower(session, msp_id, TenantId(own.id))
    return TemplateFollower(own, row) if row is not None and row.template_id == template.id else None


def follow_template(
    session: Session,
    *,
    actor: str,
    msp_id: MspId,
    slug: str,
    tenant: str,
    overrides: Sequence[str] = (),
    held: HeldPermissions,
) -> TemplateFollower:
    """Make a tenant follow a template, or change the overrides of a follower.

    The tenant's configuration changes with the next roll-out. Roll-outs do not change the parts in `overrides`. Raises
    Conflict if the tenant follows another template. Raises PermissionMissing if the caller cannot change the other
    parts of the newest version, or of a version that is being rolled out.
    """
    template = require_template(session, msp_id=msp_id, slug=slug, lock=True)
    own = _require_tenant(session, msp_id, tenant)
    kept = _require_parts(overrides)
    for version in repository.list_versions_to_come(session, template):
        require_permissions_at(held, own, exclude_overrides(list_parts(read_template(version.document)), kept))
    row = repository.lock_follower(session, msp_id, TenantId(own.id))
    if row is None:
        row = TemplateTenant(tenant_id=own.id, msp_id=msp_id, template_id=template.id, overrides=kept)
        session.add(row)
    elif row.template_id != template.id:
        raise Conflict(
            f"Tenant {tenant!r} follows another template.",
            place="tenant",
            remedy="Release the tenant from that template first.",
        )
    elif row.overrides == kept:
        return TemplateFollower(own, row)
    row.overrides = kept
    session.flush()
    _audit(session, actor, template, "follow", {"tenant": own.slug, "overrides": kept})
    return TemplateFollower(own, row)


def release_follower(session: Session, *, actor: str, msp_id: MspId, slug: str, tenant: str) -> None:
    """Release a tenant from the template. The tenant keeps its current configuration."""
    template = require_template(session, msp_id=msp_id, slug=slug)
    found = find_follower(session, msp_id=msp_id, slug=slug, tenant=tenant)
    if found is None:
        raise NotFound(f"Tenant {tenant!r} does not follow the template {slug!r}.", place="tenant")
    session.delete(found.row)
    session.flush()
    _audit(session, actor, template, "release", {"tenant": found.tenant.slug})


def list_followers(
    session: Session,
    *,
    template: Template,
    span: PageSpan | None = None,
    with_drift: bool = False,
    only: Collection[TenantId] | None = None,
    held: HeldPermissions | None = None,
) -> Sequence[TemplateFollower]:
    """List the tenants that follow a template. If `only` is set, lists only these tenants.

    `with_drift` compares each tenant with its version of the template. A tenant without a version, because no roll-out
    has updated it, has no drift. `held` are the caller's permissions; None means all permissions. Raises
    PermissionMissing if the caller cannot read the parts.
    """
    rows = repository.list_followers(session, template, span=span or FOLLOWER_ORDERS.first(), only=only)
    if not with_drift:
        return [TemplateFollower(tenant, row) for row, tenant in rows]
    versions: dict[int, Mapping[str, Any]] = {}
    found = []
    for row, tenant in rows:
        drift: list[DriftedPart] = []
        if row.version is not None:
            if row.version not in versions:
                version = require_version(session, template=template, number=row.version)
                versions[row.version] = list_parts(read_template(version.document))
            if held is not None:
                require_read_permissions_at(held, tenant, exclude_overrides(versions[row.version], row.overrides))
            enter_tenant(session, tenant.id)
            drift = find_drift(session, row, versions[row.version])
        found.append(TemplateFollower(tenant, row, drift))
    return found


def find_drift(session: Session, row: TemplateTenant, wanted: Mapping[str, Any]) -> list[DriftedPart]:
    """Return the parts of a tenant that differ from `wanted`. Requires a session in the tenant's scope."""
    parts = exclude_overrides(wanted, row.overrides)
    has = read_parts(session, row.tenant_id, parts)
    return [DriftedPart(name, value, has[name]) for name, value in parts.items() if has[name] != value]


def exclude_overrides(wanted: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return the parts of `wanted` without overridden parts. An override of a site covers all settings of the site."""
    return {
        name: value
        for name, value in wanted.items()
        if name not in overrides and name.partition(".")[0] not in overrides
    }


def _require_parts(overrides: Sequence[str]) -> list[str]:
    if len(overrides) > MAX_OVERRIDES:
        raise InvalidInput(
            f"The list has {len(overrides)} overrides; the maximum is {MAX_OVERRIDES}.", place="overrides"
        )
    for index, part in enumerate(overrides):
        if not PART_PATTERN.fullmatch(part):
            raise InvalidInput(
                f"Invalid part {part!r}.",
                place=f"overrides[{index}]",
                remedy="Use a part such as policy:office, site:main, site:main.time_zone or settings.methods.",
            )
    return sorted(set(overrides))


def _require_tenant(session: Session, msp_id: MspId, key: str) -> Tenant:
    """Return the MSP's tenant with this slug or id. Raises TenantNotFound."""
    place = find_tenant(session, key)
    if place is None or place.msp_id != msp_id:
        raise TenantNotFound(f"Tenant {key!r} does not exist.", place="tenant")
    return tenants.require_tenant(session, tenant_id=place.tenant_id)


def _audit(
    session: Session,
    actor: str,
    template: Template,
    verb: str,
    after: Mapping[str, Any] | None,
    *,
    before: Mapping[str, Any] | None = None,
) -> None:
    audit.append(
        session,
        actor=actor,
        action=f"template.{verb}",
        target=template.slug,
        msp_id=template.msp_id,
        before=before,
        after=after,
    )
